/* CALL has pushed the return address: it lies pcsp bytes above SP, and the caller's SP behind it.
 */
#include "unwind/walk.h"

bool walk_step_amd64(struct walk *w, const struct step *step, struct steps *steps)
{
	w->ret_at = w->at + step->delta;
	if (!walk_load(w, w->ret_at, &w->pc))
		return false;
	w->cfa = w->at = w->ret_at + 8;
	return true;
}
