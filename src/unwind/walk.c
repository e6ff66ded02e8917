#include "unwind/walk.h"

enum walk_result walk_frame(struct walk *w, struct steps *steps, walk_step *step_to_caller,
			    size_t depth, uint64_t *ret_word)
{
	const struct step *found = steps_at(steps, w->pc);
	struct step step;

	if (!found)
		return WALK_NO_MEMORY;
	step = *found;
	if (!(step.flags & STEP_KNOWN))
		return WALK_TORN;
	w->exact |= (step.flags & STEP_ENTRY) != 0;
	*ret_word = w->exact ? w->pc | STACK_PC_EXACT : w->pc;
	if (step.flags & STEP_TOP)
		return WALK_LAST;
	if (depth + 1 >= STACK_MAX_FRAMES || (step.flags & STEP_SPWRITE && depth))
		return WALK_CUT;
	w->exact = step.flags & STEP_INJECTED;
	if (step_to_caller(w, &step, steps))
		return WALK_NEXT;
	return w->memory->whole ? WALK_TORN : WALK_CUT;
}
