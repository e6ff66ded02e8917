/*
 * How the frames of a stack are found. pcsp is right at every instruction. The other two are the
 * methods of profilers and debuggers that do not know Go's tables, for comparison
 * (docs/internals/unwinding.md).
 */
#ifndef UNWIND_METHOD_H
#define UNWIND_METHOD_H

#include <stdio.h>

#include "image/debug_frame.h"

enum unwind_method {
	UNWIND_PCSP, /* Go's table of stack pointer offsets; stacks are followed where they switch
		      */
	UNWIND_FP,   /* the chain of saved frame pointers; for running goroutines the kernel's chain
		      */
	UNWIND_DWARF, /* .debug_frame; ends where stacks switch */
};

struct unwinding {
	enum unwind_method method;
	const struct debug_frame *frames; /* for UNWIND_DWARF; outlives its users */
};

/* "pcsp", "fp", "dwarf" */
const char *unwind_method_name(enum unwind_method method);
/* In words: "by frame pointers alone" */
const char *unwind_method_words(enum unwind_method method);
/* Text with stacks by another method than pcsp begins with a line that says so. */
void unwind_write_mark(enum unwind_method method, FILE *out);
/* False: unknown name. */
bool unwind_method_named(const char *name, enum unwind_method *ret);

#endif
