/*
 * The files that a process has mapped with code, and the kernel's vDSO: what C frames are unwound
 * by, and the names of their functions. A file is opened when the first of its code is met. The Go
 * program's own file is among them: with cgo there is C code in it.
 */
#ifndef IMAGE_MODULES_H
#define IMAGE_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/cfi.h"
#include "image/elf_file.h"
#include "image/registers.h"
#include "target/target.h"

struct modules;

/* All mappings ever seen are kept, because their addresses are named at the end. A program that
 * maps code again and again may exceed this: the excess is unknown. */
#define MODULES_MOST (1u << 14)

/* A range of a file's code. */
struct module_range {
	uint64_t start;
	uint64_t end;
	uint64_t offset;      /* in the file */
	const char *path;     /* "[vdso]" for the kernel's */
	const char *build_id; /* hexadecimal; "" without one */
};

struct error *modules_open(struct target *t, enum machine machine, struct modules **ret) must_check;
/* Without a process: for files that modules_add_file() adds. */
struct error *modules_of_files(enum machine machine, struct modules **ret) must_check;
/*
 * Adds a mapping of some process and its file, which it takes also when it fails. NULL: no file, so
 * its code is named by the mapping. ERROR_CORRUPT: the file has no code at that offset.
 */
struct error *modules_add_file(struct modules *m, const struct module_range *range,
			       struct elf_file *file) must_check;
void modules_close(struct modules *m);

/* How many mappings were met beyond MODULES_MOST. NULL: 0. */
uint64_t modules_left_out(const struct modules *m);

/* Whether there is code at this address. If no known mapping has it, the mappings are read again,
 * at most once after each modules_stale(). */
bool modules_have(struct modules *m, uint64_t address);
/* Says that the mappings may have changed. */
void modules_stale(struct modules *m);

/*
 * From a frame outside Go to its caller: by call frame information, else, where a file has none, by
 * the frame pointer. `exact`: the pc is that of an interrupted instruction, in *ret_exact of the
 * caller likewise. Never CFI_NONE.
 */
enum cfi_result modules_step(struct modules *m, const struct stack_reader *stack, bool exact,
			     struct registers *regs, bool *ret_exact);

/* The function at the address; else "[libc.so.6]" for code without symbols; NULL outside all
 * files. *ret_file is the path of the file. Both stay until modules_close(). */
const char *modules_function(struct modules *m, uint64_t address, const char **ret_file);

/* The i-th range that was met, in that order; false past the last. */
bool modules_met(const struct modules *m, size_t i, struct module_range *ret);

static inline void cleanup_modules(struct modules **m)
{
	modules_close(*m);
}
#define _cleanup_modules_ __attribute__((cleanup(cleanup_modules)))

#endif
