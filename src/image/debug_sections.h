/*
 * The debug sections of a file, unpacked here: libdw would unpack all of them before the first
 * query, and change the file's own section headers.
 */
#ifndef IMAGE_DEBUG_SECTIONS_H
#define IMAGE_DEBUG_SECTIONS_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A debug section as the file has it. */
struct debug_section {
	const uint8_t *data; /* NULL: there is no such section */
	size_t size;
	size_t unpacked_size;
	bool compressed; /* by zlib */
};

/* The section `name` ("info" of ".debug_info" or ".zdebug_info"); none when we cannot unpack it. */
struct debug_section debug_section_find(Elf *elf, const char *name);

/* Into unpacked_size bytes. */
bool debug_section_unpack(const struct debug_section *section, uint8_t *ret);

/*
 * A file in memory for libdw that has nothing but those of these sections that the original has,
 * unpacked. Behind each is a NUL: libdw does not check that a section's last string ends. The
 * caller frees *ret. ERROR_CORRUPT, without a name in its message: they cannot be unpacked.
 */
#define DEBUG_SECTIONS_MAX 16
struct error *debug_sections_build(Elf *original, const char *const *names, size_t count,
				   uint8_t **ret, size_t *ret_size) must_check;

/* How much of .debug_info was checked, and how many units it has. */
struct debug_units {
	size_t end;
	size_t count;
};

/* Whether .debug_info up to `want` has no more units than real DWARF of its size: libdw notes each
 * on the way to an entry. Goes on where it ended the last time. */
bool debug_units_are_few(struct debug_units *u, const uint8_t *info, size_t size,
			 size_t want) must_check;

/*
 * An entry may say where its sibling is (C compilers do that); if that leads backwards, libdw walks
 * in circles. Without the attribute it goes through the entries in between. So this renames it in
 * the table of abbreviations that begins at `offset` in .debug_abbrev (DWARF 5, section 7.5.3), and
 * says how many bytes it looked at.
 */
size_t abbreviations_drop_siblings(uint8_t *bytes, size_t size, size_t offset);

#endif
