/*
 * One walk up a stack, a frame at a time: for the files of this room alone. The parts for each
 * architecture are in walk_amd64.c and walk_arm64.c.
 */
#ifndef UNWIND_WALK_H
#define UNWIND_WALK_H

#include <stdbool.h>
#include <string.h>

#include "unwind/stacks.h"
#include "unwind/steps.h"

struct walk {
	const struct stack_memory *memory;
	uint64_t pc;
	uint64_t lr;
	size_t at;  /* offset of SP in the copy */
	bool exact; /* pc is that of an interrupted instruction */
	bool by_fp;
	uint64_t fp;   /* for that alone */
	size_t ret_at; /* after a step: where the return address was, or WALK_IN_REGISTER */
	size_t cfa;    /* after a step: SP in the caller, before its call; DWARF's CFA */
};

#define WALK_IN_REGISTER SIZE_MAX

/* Moves to the caller; false when that would need bytes that are not in the copy. */
typedef bool walk_step(struct walk *w, const struct step *step, struct steps *steps);

walk_step walk_step_amd64, walk_step_arm64, walk_step_fp_amd64, walk_step_fp_arm64;

static inline walk_step *walk_step_for(enum machine machine, enum unwind_method method)
{
	if (method == UNWIND_FP)
		return machine == MACHINE_AMD64 ? walk_step_fp_amd64 : walk_step_fp_arm64;
	return machine == MACHINE_AMD64 ? walk_step_amd64 : walk_step_arm64;
}

static inline struct walk walk_begin(const struct stack_memory *m, enum unwind_method method)
{
	return (struct walk){
		.memory = m,
		.pc = m->pc,
		.lr = m->lr,
		.by_fp = method == UNWIND_FP,
		.fp = m->fp,
		.exact = m->exact_pc,
		.ret_at = WALK_IN_REGISTER,
	};
}

/* A frame is known, and the walk goes on, ends or cannot go on; or the bytes are no stack. */
enum walk_result { WALK_NEXT, WALK_LAST, WALK_CUT, WALK_TORN, WALK_NO_MEMORY };

/* Goes from frame number `depth` to its caller. *ret_word is the frame's stack word, except for
 * WALK_TORN and WALK_NO_MEMORY. */
enum walk_result walk_frame(struct walk *w, struct steps *steps, walk_step *step_to_caller,
			    size_t depth, uint64_t *ret_word);

static inline bool walk_load(const struct walk *w, size_t at, uint64_t *ret)
{
	if (at > w->memory->size || w->memory->size - at < sizeof(*ret))
		return false;
	memcpy(ret, w->memory->bytes + at, sizeof(*ret));
	return true;
}

#endif
