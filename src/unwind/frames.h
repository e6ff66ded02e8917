/*
 * The frames of one stack, and where in its memory each of them lies: the same exact walk as in
 * stacks.h, for callers that read the memory itself.
 */
#ifndef UNWIND_FRAMES_H
#define UNWIND_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "unwind/stacks.h"

struct frame {
	uint64_t word;      /* where it is, as a stack word (image/pclntab.h) */
	uint64_t sp;        /* SP there */
	uint64_t cfa;       /* SP in the caller; 0: not known, of the last frame */
	uint64_t return_at; /* the address of its return address; 0: in a register, or not known */
};

enum frames_end {
	FRAMES_WHOLE, /* they lead to where a goroutine's stack ends */
	FRAMES_CUT,   /* the memory ends before, or the last function moves SP as it likes */
	FRAMES_TORN,  /* from the last frame on the memory makes no sense */
};

struct frames {
	struct frame *items; /* innermost first */
	size_t count;
	size_t capacity;
	enum frames_end end;
};

/* The only error is ERROR_NO_MEMORY; the caller releases *ret, which has to be zero before. */
struct error *frames_unwind(const struct pclntab *functions, enum machine machine,
			    const struct stack_memory *memory, struct frames *ret) must_check;
/* The same by another method. */
struct error *frames_unwind_by(const struct unwinding *by, const struct pclntab *functions,
			       enum machine machine, const struct stack_memory *memory,
			       struct frames *ret) must_check;
void frames_release(struct frames *frames);
#define _cleanup_frames_ __attribute__((cleanup(frames_release)))

#endif
