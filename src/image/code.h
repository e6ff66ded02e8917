/* All code of a process: Go's function table, and the files that hold C. */
#ifndef IMAGE_CODE_H
#define IMAGE_CODE_H

#include "image/kernel_symbols.h"
#include "image/modules.h"
#include "image/pclntab.h"

struct code {
	const struct pclntab *functions;
	struct modules *modules;             /* NULL: C code has no names */
	const struct kernel_symbols *kernel; /* NULL: the kernel's code has no names */
};

/* As pclntab_frames(); a word outside Go has one frame, its file is the library or
 * program, or "[kernel]". */
size_t code_frames(const struct code *code, uint64_t stack_pc, struct go_frame *ret, size_t max);

#endif
