/*
 * BL leaves the return address in LR; a function with a frame stores it at its SP. pcsp is the size
 * of the frame, 0 where there is none (yet). Under a call that a signal injected lies the LR of the
 * interrupted function, in 16 bytes of its own: runtime/traceback.go, (*unwinder).next.
 */
#include "unwind/walk.h"

bool walk_step_arm64(struct walk *w, const struct step *step, struct steps *steps)
{
	bool injected = step->flags & STEP_INJECTED;
	const struct step *caller;

	w->ret_at = step->delta ? w->at : WALK_IN_REGISTER;
	if (!step->delta)
		w->pc = w->lr;
	else if (!walk_load(w, w->at, &w->pc))
		return false;
	w->cfa = w->at += step->delta;
	w->lr = 0;
	if (!injected)
		return true;
	caller = steps_at(steps, w->pc);
	if (!walk_load(w, w->at, &w->lr))
		return false;
	w->at += 16;
	return caller != NULL;
}
