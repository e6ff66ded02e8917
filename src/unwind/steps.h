/* The facts about a pc that unwinding needs, found once and kept: for the files of this room alone.
 */
#ifndef UNWIND_STEPS_H
#define UNWIND_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/debug_frame.h"
#include "image/pclntab.h"

enum {
	STEP_KNOWN = 1,    /* there is a function and its table has a delta for the pc */
	STEP_TOP = 2,      /* the stack ends here */
	STEP_INJECTED = 4, /* a signal made the call: the caller's pc is exact */
	STEP_ENTRY = 8,    /* the pc is the function's first */
	STEP_SPWRITE = 16, /* the function moves SP as it likes: only its own pc is known */
	STEP_BLIND = 32,   /* .debug_frame says nothing of the pc */
	STEP_GO = 64,      /* it is Go code, of the program or of a plugin */
};

struct step {
	uint64_t pc;
	uint32_t delta; /* from SP to the return address (amd64) or to the caller's SP (arm64) */
	uint16_t flags;
	uint16_t stack_switch; /* enum stack_switch */
};

struct steps {
	const struct pclntab *functions;
	const struct debug_frame *frames; /* where deltas come from; NULL: pcsp */
	struct step *slots;
	size_t count;
	size_t capacity; /* a power of two */
};

/* NULL when there is no memory. Valid until the next call. */
const struct step *steps_at(struct steps *steps, uint64_t pc);

#endif
