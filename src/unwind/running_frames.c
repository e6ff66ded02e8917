/* A walk from frame to frame: through Go by pcsp, through C by call frame information. */
#include "unwind/running_walk.h"
#include "unwind/switches.h"

/* Steps to the caller of a Go function; false when a word of it is unavailable. */
static bool step_amd64(struct running_walk *w, const struct step *step)
{
	uint64_t at = running_sp(w) + step->delta, pc, fp = running_fp(w);

	if (!running_word(w, at, &pc) || (running_has_record(w, step) && !running_word(w, fp, &fp)))
		return false;
	running_move(w, pc, at + 8, fp);
	return true;
}

/*
 * The innermost frame's record lies below SP, where nothing is captured. But each caller with a
 * frame has its own right below its SP; the kernel's chain has gone there as well. 0: it has none,
 * or its stack is another.
 */
static uint64_t fp_of_caller(struct running_walk *w, uint64_t pc, uint64_t sp)
{
	const struct step *caller = steps_at(&w->u->steps, pc);

	if (!caller || !(caller->flags & STEP_KNOWN) || caller->delta < 8 || caller->stack_switch)
		return 0;
	chain_move(w, running_fp(w), sp - 8);
	return sp - 8;
}

/* See walk_arm64.c; LR counts in the innermost frame and in one that a signal interrupted. */
static bool step_arm64(struct running_walk *w, const struct step *step)
{
	uint64_t sp = running_sp(w), fp = running_fp(w), pc, lr = 0;
	bool has_lr = registers_get(&w->regs, ARM64_LR, &pc);

	if (step->delta ? !running_word(w, sp, &pc) : !has_lr)
		return false;
	sp += step->delta;
	if (step->flags & STEP_INJECTED) {
		if (!running_word(w, sp, &lr))
			return false;
		sp += 16;
	}
	if (running_has_record(w, step) && !running_word(w, fp, &fp)) {
		if (chain_is_whole(w, chain_place(w, fp)))
			return false;
		fp = step->flags & STEP_INJECTED ? 0 : fp_of_caller(w, pc, sp);
	}
	running_move(w, pc, sp, fp);
	if (step->flags & STEP_INJECTED)
		registers_set(&w->regs, ARM64_LR, lr);
	return true;
}

static bool step_to_caller(struct running_walk *w, const struct step *step)
{
	return w->u->machine == MACHINE_AMD64 ? step_amd64(w, step) : step_arm64(w, step);
}

/* A word is not among the captured bytes: the chain, or, when that is not all, memory. */
static enum walk_end beyond_captured(struct running_walk *w, const struct step *step)
{
	bool has_record = running_has_record(w, step);
	size_t place = chain_place(w, running_fp(w));

	if (w->guard != GUARD_UNSET)
		return CUT_OFF;
	if (!w->by_dwarf && has_record && chain_is_whole(w, place))
		return chain_take(w, place);
	running_guard(w, has_record);
	return step_to_caller(w, step) ? GO_ON : CUT_OFF;
}

/*
 * gogo has set SP to the goroutine's stack, but not the pc yet: the word there is no return
 * address.
 */
static bool is_arriving(const struct running_walk *w)
{
	return w->result.g && running_sp(w) > w->place.stack_lo &&
	       running_sp(w) <= w->place.stack_hi && w->n == 1;
}

/* DWARF says nothing of it. */
static enum walk_end stop_at_switch(const struct running_walk *w, const struct step *step)
{
	if (step->flags & STEP_BLIND)
		return CUT_OFF;
	if (!step->stack_switch || step->stack_switch == SWITCH_RESCHEDULE ||
	    !switch_is_done(w, step))
		return GO_ON;
	return step->stack_switch == SWITCH_SCHEDULER ? AT_END : CUT_OFF;
}

static enum walk_end go_frame(struct running_walk *w)
{
	const struct step *found =
		steps_at(w->by_dwarf ? &w->u->by_dwarf : &w->u->steps, running_pc(w));
	bool moved = false;
	enum walk_end end;
	struct step step;

	if (!found)
		return OUT_OF_MEMORY;
	step = *found;
	if (!(step.flags & STEP_KNOWN))
		return w->n ? CUT_OFF : NOT_A_STACK;
	w->exact |= (step.flags & STEP_ENTRY) != 0;
	if (!running_push(w, running_pc(w) | (w->exact ? STACK_PC_EXACT : 0)))
		return OUT_OF_MEMORY;
	w->exact = step.flags & STEP_INJECTED;
	chain_find_record(w, &step);
	end = w->by_dwarf ? stop_at_switch(w, &step) : switch_follow(w, &step, &moved);
	w->from_c = false;
	if (end != GO_ON || moved)
		return end;
	if (step.flags & STEP_TOP)
		return AT_END;
	if (step.flags & STEP_SPWRITE && !step.stack_switch && (w->n > 1 || is_arriving(w)))
		return CUT_OFF;
	return step_to_caller(w, &step) ? GO_ON : beyond_captured(w, &step);
}

/*
 * On arm64 the vDSO has no call frame information. But LR, as long as it leads to the function of
 * the runtime that calls the vDSO, does so to the caller of the innermost frame (or of one that a
 * signal interrupted): nothing has been called in between. Registers that C keeps are as that
 * function left them; it checks SP itself.
 */
static bool leave_by_lr(struct running_walk *w, bool exact)
{
	const struct step *caller;
	uint64_t lr;

	if (w->u->machine != MACHINE_ARM64 || !exact || !registers_get(&w->regs, ARM64_LR, &lr) ||
	    !running_in_go(w, lr))
		return false;
	caller = steps_at(&w->u->steps, lr);
	if (!caller || caller->stack_switch != SWITCH_VDSO)
		return false;
	registers_set(&w->regs, ARM64_PC, lr);
	w->exact = false;
	return true;
}

static enum walk_end c_frame(struct running_walk *w)
{
	struct stack_reader reader = {running_word, w};
	uint64_t pc = running_pc(w);
	bool exact = w->exact;

	if (!w->u->modules || !modules_have(w->u->modules, pc - !exact))
		return w->n ? CUT_OFF : NOT_A_STACK;
	if (!running_push(w, pc | (exact ? STACK_PC_EXACT : 0)))
		return OUT_OF_MEMORY;
	w->in_c = w->from_c = true;
	if (leave_by_lr(w, exact))
		return GO_ON;
	switch (modules_step(w->u->modules, &reader, exact, &w->regs, &w->exact)) {
	case CFI_STEPPED:
		return GO_ON;
	case CFI_OUTERMOST:
		return AT_END;
	default:
		break;
	}
	if (w->guard != GUARD_UNSET)
		return CUT_OFF;
	running_guard(w, false);
	return modules_step(w->u->modules, &reader, exact, &w->regs, &w->exact) == CFI_STEPPED
		       ? GO_ON
		       : CUT_OFF;
}

static enum walk_end walk(struct running_walk *w)
{
	enum walk_end end = GO_ON;

	while (end == GO_ON && w->n < STACK_MAX_FRAMES)
		end = running_in_go(w, running_pc(w)) ? go_frame(w) : c_frame(w);
	return end == GO_ON ? CUT_OFF : end;
}

/* The memory read now is newer than the sample: the chain, as far as that goes, takes its place. */
static enum walk_end take_back(struct running_walk *w)
{
	w->n = w->guard_n;
	w->result.used_memory = false;
	w->result.truncated = false;
	if (w->by_dwarf)
		return CUT_OFF;
	if (w->guard_record)
		return chain_take(w, w->guard_chain);
	return chain_take_behind_gap(w, w->guard_chain);
}

enum walk_end running_walk_all(struct running_walk *w)
{
	enum walk_end end = walk(w);

	while (!running_guard_holds(w)) {
		end = take_back(w);
		w->guard = w->beyond = GUARD_UNSET;
		if (end == GO_ON)
			end = walk(w);
	}
	return end;
}

enum walk_end running_mark_cut(struct running_walk *w)
{
	if (!running_push(w, STACK_PC_TRUNCATED))
		return OUT_OF_MEMORY;
	if (w->result.g && !running_push(w, w->place.start_pc | STACK_PC_EXACT))
		return OUT_OF_MEMORY;
	return AT_END;
}
