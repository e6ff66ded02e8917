/* Where a walk stands: its words so far, and its registers. */
#include "base/array.h"
#include "unwind/running_walk.h"

bool running_push(struct running_walk *w, uint64_t word)
{
	if (!array_reserve(&w->u->words, &w->u->capacity, w->n + 1))
		return false;
	w->u->words[w->n++] = word;
	w->result.truncated |= word == STACK_PC_TRUNCATED;
	return true;
}

void running_move(struct running_walk *w, uint64_t pc, uint64_t sp, uint64_t fp)
{
	w->regs.known = 0;
	registers_set(&w->regs, w->roles->pc, pc);
	registers_set(&w->regs, w->roles->sp, sp);
	registers_set(&w->regs, w->roles->fp, fp);
}

bool running_has_record(const struct running_walk *w, const struct step *step)
{
	if (!step || step->delta < 8)
		return false;
	if (w->u->machine == MACHINE_AMD64)
		return running_fp(w) == running_sp(w) + step->delta - 8;
	return running_fp(w) == running_sp(w) - 8;
}
