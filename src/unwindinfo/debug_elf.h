/*
 * A separate debug file: an ELF file for a program with the given sections and the program's
 * addresses, but without its code, as `objcopy --only-keep-debug` makes it.
 */
#ifndef UNWINDINFO_DEBUG_ELF_H
#define UNWINDINFO_DEBUG_ELF_H

#include <elf.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "image/elf_file.h"

struct debug_section {
	const char *name;
	uint32_t type;
	uint64_t flags;
	uint64_t address;
	uint64_t align;
	uint64_t entry_size;
	const struct strbuf *contents; /* NULL: SHT_NOBITS */
	uint64_t size;                 /* of SHT_NOBITS */
	uint64_t offset;               /* of SHT_NOBITS: in the program's file */
	uint32_t link, info;           /* sections by their place in the list + 1 */
};

struct error *debug_elf_write(const struct elf_file *program, const struct debug_section *sections,
			      size_t count, FILE *out) must_check;

#endif
