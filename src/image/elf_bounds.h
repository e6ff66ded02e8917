/*
 * Checks an ELF file's headers against its size before they are used. libelf allocates memory for
 * each section that a header claims, and every segment is searched: so ranges that overlap or lie
 * outside the file would cost more than the file's size. A file that passes costs time and memory
 * in proportion to its bytes on disk.
 */
#ifndef IMAGE_ELF_BOUNDS_H
#define IMAGE_ELF_BOUNDS_H

#include <libelf.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A longer name of a section or symbol counts as none. */
#define ELF_NAME_MAX 4096

/* ERROR_CORRUPT: most of it is holes. Reading a hole through a mapping fills it, on tmpfs for as
 * long as the file is there. */
struct error *elf_bounds_check_holes(int fd, const char *name) must_check;

/* To be called before elf_memory(). ERROR_NOT_GO: no ELF file; ERROR_UNSUPPORTED: neither amd64 nor
 * arm64; ERROR_CORRUPT: its tables are larger than any program's, or overlap. */
struct error *elf_bounds_check(const uint8_t *bytes, size_t size, const char *name) must_check;

/* As elf_strptr(), but in constant time and never unpacking; NULL for none. */
const char *elf_bounds_string(Elf *elf, size_t section, size_t offset);

#endif
