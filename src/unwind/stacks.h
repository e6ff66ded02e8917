/*
 * Stacks, each kept once and known by a small number; and the unwinder that makes them.
 *
 * Unwinding is exact: it steps by the pcsp tables (cached by pc), so it is right in prologues,
 * epilogues and frameless leaves, wherever a goroutine stands. The unwinder works on a copy of the
 * stack's memory and knows nothing of the process.
 */
#ifndef UNWIND_STACKS_H
#define UNWIND_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/pclntab.h"

/* The empty stack. */
#define STACK_NONE 0u

enum {
	STACK_TRUNCATED =
		1, /* more frames follow that were not read; the last pc is the start pc */
	STACK_SYNTHETIC = 2, /* not unwound: made from the start pc alone */
};

struct stack {
	const uint64_t *pcs; /* innermost first: an exact pc, then return addresses */
	uint32_t count;
	uint32_t flags;
};
