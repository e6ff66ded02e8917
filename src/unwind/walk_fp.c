/*
 * By frame pointers alone, as profilers go that know no tables. A record is the caller's frame
 * pointer and, behind it, the return address, on amd64 and on arm64 alike. Whether the function has
 * made its record yet the chain does not tell: where it has not, its caller is left out.
 */
#include "unwind/walk.h"

/* Records lie ever higher; the innermost one of arm64 below SP. */
static bool is_next_record(const struct walk *w, uint64_t fp)
{
	const struct stack_memory *m = w->memory;
	uint64_t low = m->sp - m->below, high = m->sp + m->size;

	if (w->ret_at != WALK_IN_REGISTER)
		low = m->sp + w->ret_at + 8;
	return fp && !(fp & 7) && fp >= low && fp < high && high - fp >= 16;
}

static uint64_t word_at(const struct walk *w, uint64_t address)
{
	const struct stack_memory *m = w->memory;
	uint64_t word;

	memcpy(&word, m->bytes - m->below + (address - (m->sp - m->below)), sizeof(word));
	return word;
}

static bool step_to_caller(struct walk *w, struct steps *steps)
{
	uint64_t record = w->fp, pc;
	const struct step *caller;

	if (!is_next_record(w, record))
		return false;
	pc = word_at(w, record + 8);
	caller = steps_at(steps, pc);
	if (!caller || !(caller->flags & STEP_KNOWN))
		return false;
	w->pc = pc;
	w->fp = word_at(w, record);
	w->ret_at = record + 8 - w->memory->sp;
	return true;
}

/* The return address is the last word of the frame. */
bool walk_step_fp_amd64(struct walk *w, const struct step *step, struct steps *steps)
{
	if (!step_to_caller(w, steps))
		return false;
	w->cfa = w->at = w->ret_at + 8;
	return true;
}

/* The record lies right below SP, so the caller's says where that was. */
bool walk_step_fp_arm64(struct walk *w, const struct step *step, struct steps *steps)
{
	if (!step_to_caller(w, steps))
		return false;
	w->cfa = w->at = (w->fp ? w->fp - w->memory->sp : w->ret_at) + 8;
	return true;
}
