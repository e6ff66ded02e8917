/*
 * One walk up a stack, a frame at a time: for the files of this room alone. What differs between
 * processors is in walk_amd64.c and walk_arm64.c.
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
	size_t at;     /* offset of SP in the copy */
	size_t ret_at; /* after a step: where the return address was, or WALK_IN_REGISTER */
};

#define WALK_IN_REGISTER SIZE_MAX

/* Moves to the caller; false when that would need bytes that are not in the copy. */
typedef bool walk_step(struct walk *w, const struct step *step, struct steps *steps);

walk_step walk_step_amd64, walk_step_arm64;

static inline bool walk_load(const struct walk *w, size_t at, uint64_t *ret)
{
	if (at > w->memory->size || w->memory->size - at < sizeof(*ret))
		return false;
	memcpy(ret, w->memory->bytes + at, sizeof(*ret));
	return true;
}

#endif
