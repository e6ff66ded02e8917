/*
 * An ELF file: its kind, its bytes by address, its symbols. Addresses here are the file's own
 * (p_vaddr); callers that know where it was mapped add the bias.
 */
#ifndef IMAGE_ELF_FILE_H
#define IMAGE_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct elf_file;

enum machine { MACHINE_AMD64, MACHINE_ARM64 };

struct elf_segment {
	uint64_t address;
	uint64_t file_size;
	uint64_t memory_size;
	uint64_t offset;
	bool writable;
	bool executable;
};

struct elf_section {
	const char *name;
	uint64_t address;
	uint64_t size;
	const uint8_t *bytes; /* NULL for .bss */
};

/* Takes ownership of the descriptor, also on failure. `name` is for messages and is copied.
 * ERROR_NOT_GO: no ELF file; ERROR_UNSUPPORTED: neither amd64 nor arm64. */
struct error *elf_file_open(int fd, const char *name, struct elf_file **ret) must_check;
void elf_file_close(struct elf_file *elf);
/* As mapped_file_check(): call it after much was read. */
struct error *elf_file_check(const struct elf_file *elf, struct error *err) must_check;
/* As mapped_file_probe(). */
void elf_file_probe(const struct elf_file *elf);

const char *elf_file_name(const struct elf_file *elf);
enum machine elf_file_machine(const struct elf_file *elf);
/* ET_DYN: it may be mapped anywhere. */
bool elf_file_is_pie(const struct elf_file *elf);
/* It has a program interpreter or needs shared libraries. */
bool elf_file_is_dynamic(const struct elf_file *elf);
/* Whether it has neither symbols nor DWARF. */
bool elf_file_is_stripped(const struct elf_file *elf);
/* Lower-case hexadecimal of the GNU build id, else the Go linker's own id, else "". */
const char *elf_file_build_id(const struct elf_file *elf);
/* Go's own build id; "" when there is none. */
const char *elf_file_go_build_id(const struct elf_file *elf);
/* Whether it is one of its build ids; a file that lost its section headers keeps only Go's. */
bool elf_file_has_build_id(const struct elf_file *elf, const char *build_id);
/* False also when neither has a build id. */
bool elf_file_same_build(const struct elf_file *a, const struct elf_file *b);

/* Room for a build id as elf_file_build_id() gives it, with its NUL. */
#define ELF_BUILD_ID_SIZE (2 * 128 + 1)
/* The build id in the first bytes of a program, as a core file has them; "" when it is not among
 * them. For a Go program it may be the linker's own although there is a GNU one. */
void elf_bytes_build_id(const void *bytes, size_t size, char ret[ELF_BUILD_ID_SIZE]);

/* The address where the program starts. */
uint64_t elf_file_entry(const struct elf_file *elf);

/*
 * The bias of a file of which a piece of code, from this offset on, is mapped at `start`; false
 * when it has no code there. A separate debug file has no code at all: its functions' addresses are
 * taken to be their offsets in the file that it was made of, as linkers like it.
 */
bool elf_file_bias(const struct elf_file *elf, uint64_t start, uint64_t offset, uint64_t *ret);

size_t elf_file_segments(const struct elf_file *elf, const struct elf_segment **ret);
/* false when there is no such section. */
bool elf_file_section(const struct elf_file *elf, const char *name, struct elf_section *ret);

/* `size` bytes at this address, in place, or NULL where the file does not hold them. */
const uint8_t *elf_file_bytes(const struct elf_file *elf, uint64_t address, size_t size);
/* As many bytes as the file holds from this address on; NULL and 0 when none. */
const uint8_t *elf_file_rest(const struct elf_file *elf, uint64_t address, size_t *ret_size);

/* 0 when the file has no such symbol. */
uint64_t elf_file_symbol(const struct elf_file *elf, const char *name);

/* Calls `visit` with each relative relocation, the place that it fills and the address that it puts
 * there, until it is true; gives whether it was. */
bool elf_file_each_relocation(const struct elf_file *elf,
			      bool (*visit)(void *arg, uint64_t place, uint64_t address),
			      void *arg);
/* Relocates a copy of the bytes at `address` as the loader does: puts address + bias wherever a
 * relative relocation says so. */
void elf_file_relocate(const struct elf_file *elf, uint64_t address, void *buffer, size_t size,
		       uint64_t bias);

/* The whole file, as mapped: for readers that bring their own parser. */
const uint8_t *elf_file_whole(const struct elf_file *elf, size_t *ret_size);

static inline void cleanup_elf_file(struct elf_file **elf)
{
	elf_file_close(*elf);
}
#define _cleanup_elf_file_ __attribute__((cleanup(cleanup_elf_file)))

#endif
