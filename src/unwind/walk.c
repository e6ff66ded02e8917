#include "unwind/walk.h"

/* One that has not come further than to the function where it began has no frame pointer yet. */
static bool is_start(const struct walk *w, const struct steps *steps, size_t depth, uint64_t pc)
{
	struct go_func f;

	return !depth && !w->fp && pclntab_find(steps->functions, pc, &f) &&
	       f.entry == w->memory->start_pc;
}

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
	if (depth + 1 >= STACK_MAX_FRAMES || step.flags & STEP_BLIND ||
	    (step.flags & STEP_SPWRITE && depth && !w->by_fp))
		return WALK_CUT;
	w->exact = step.flags & STEP_INJECTED;
	if (step_to_caller(w, &step, steps))
		return WALK_NEXT;
	if (w->by_fp)
		return is_start(w, steps, depth, step.pc) ? WALK_LAST : WALK_CUT;
	return w->memory->whole ? WALK_TORN : WALK_CUT;
}
