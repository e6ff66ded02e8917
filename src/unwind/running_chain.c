/*
 * The kernel's frame-pointer chain: return addresses without their places. Within the captured
 * bytes the walk follows the same records as the kernel, so it knows which address belongs to the
 * first record beyond them.
 */
#include "unwind/running_walk.h"
#include "unwind/switches.h"

/* From the record at fp, which should hold the k-th address of the chain. */
static bool follow(struct running_walk *w, uint64_t fp, size_t k)
{
	uint64_t next, pc;

	for (; k < w->chain_count && running_is_captured(w, fp) && running_is_captured(w, fp + 8);
	     k++) {
		if (!running_word(w, fp, &next) || !running_word(w, fp + 8, &pc) ||
		    pc != w->in->chain[k])
			return false;
		fp = next;
	}
	if (k >= w->chain_count || !fp)
		return false;
	w->chain_fp = fp;
	w->chain_next = k;
	return true;
}

/*
 * Whether fp is the record of a call of duffzero or duffcopy, below SP. (Further away it is on
 * another stack. On arm64 the innermost frame's own record is below SP, by 8.)
 */
static bool is_below(const struct running_walk *w)
{
	uint64_t below = running_sp(w) - running_fp(w);

	return below <= 32 && below > (w->u->machine == MACHINE_ARM64 ? 8 : 0);
}

void chain_follow_captured(struct running_walk *w)
{
	if (!is_below(w))
		follow(w, running_fp(w), 1);
}

void chain_move(struct running_walk *w, uint64_t from, uint64_t to)
{
	size_t place = chain_place(w, from);

	if (place)
		follow(w, to, place + 1);
}

void chain_find_record(struct running_walk *w, const struct step *step)
{
	uint64_t fp = running_sp(w) + step->delta - 8, next, pc;

	if (w->u->machine != MACHINE_AMD64 || step->delta < 8 || !is_below(w) ||
	    w->chain_count < 3 || !running_is_captured(w, fp) || !running_is_captured(w, fp + 8) ||
	    !running_word(w, fp, &next) || !running_word(w, fp + 8, &pc) || pc != w->in->chain[2] ||
	    next <= fp)
		return;
	if (follow(w, fp, 2))
		registers_set(&w->regs, w->roles->fp, fp);
}

size_t chain_place(const struct running_walk *w, uint64_t fp)
{
	return fp && fp == w->chain_fp && w->chain_next < w->chain_count ? w->chain_next : 0;
}

/*
 * Old assembly calls without a frame; then the record to which BP leads is its caller's, and the
 * caller's return address is not in the chain.
 */
static bool loses_caller(const struct step *step)
{
	return step->delta < 8 && !(step->flags & STEP_TOP);
}

/* That of systemstack is known by the code. */
static bool push_lost_caller(struct running_walk *w, const struct step *step, size_t k)
{
	uint64_t caller = 0;

	if (!loses_caller(step) || k + 1 >= w->chain_count)
		return true;
	if (step->stack_switch == SWITCH_SYSTEMSTACK)
		caller = systemstack_return_address(w, w->in->chain[k], w->in->chain[k + 1]);
	return running_push(w, caller ? caller : STACK_PC_TRUNCATED);
}

/* The thread works for no goroutine, and the walk ends here. */
static bool is_nobodys(const struct step *step, bool dropped_g)
{
	return step->stack_switch == SWITCH_SCHEDULER ||
	       (step->stack_switch == SWITCH_MORESTACK && dropped_g);
}

bool chain_is_whole(struct running_walk *w, size_t place)
{
	bool dropped_g = running_dropped_g(w), borrowed = is_on_borrowed_stack(w);
	enum stale stale;

	for (size_t k = place; place && k < w->chain_count; k++) {
		const struct step *step = steps_at(&w->u->steps, w->in->chain[k]);

		if (!step)
			return false;
		dropped_g |= step->stack_switch == SWITCH_RESCHEDULE;
		borrowed |= step->stack_switch == SWITCH_BORROWS;
		if (is_nobodys(step, dropped_g))
			return true;
		stale = step->stack_switch == SWITCH_SYSTEMSTACK ? stale_under_chain(w, borrowed)
								 : STALE_NOT;
		if (stale != STALE_NOT)
			return stale == STALE;
		if (!(step->flags & STEP_KNOWN) ||
		    (loses_caller(step) && step->stack_switch != SWITCH_SYSTEMSTACK))
			return false;
		if (step->flags & STEP_TOP)
			return true;
	}
	return false;
}

/* Whether the chain has gone astray behind this systemstack. Then the walk goes on by the snapshot,
 * or ends. */
static bool leave_chain(struct running_walk *w, const struct step *step, uint64_t pc,
			enum walk_end *ret)
{
	enum stale stale = step->stack_switch == SWITCH_SYSTEMSTACK
				   ? stale_under_chain(w, is_on_borrowed_stack(w))
				   : STALE_NOT;

	if (stale == STALE_NOT)
		return false;
	stale_truncate_chain(w);
	if (stale == STALE) {
		running_move(w, pc, running_sp(w), w->in->sampled->left_fp);
		w->exact = false;
		*ret = GO_ON;
	} else {
		*ret = running_push(w, pc) ? CUT_OFF : OUT_OF_MEMORY;
	}
	return true;
}

enum walk_end chain_take(struct running_walk *w, size_t place)
{
	enum walk_end end;

	for (size_t k = place; place && k < w->chain_count; k++) {
		const struct step *found = steps_at(&w->u->steps, w->in->chain[k]);
		struct step step;

		if (!found)
			return OUT_OF_MEMORY;
		step = *found;
		if (!(step.flags & STEP_KNOWN))
			return CUT_OFF;
		w->result.used_chain = true;
		if (leave_chain(w, &step, w->in->chain[k], &end))
			return end;
		if (!running_push(w, w->in->chain[k]))
			return OUT_OF_MEMORY;
		if (step.stack_switch == SWITCH_RESCHEDULE)
			w->dropped_g_n = w->n;
		if (is_nobodys(&step, running_dropped_g(w))) {
			w->result.is_scheduler = true;
			return AT_END;
		}
		if (step.flags & STEP_TOP)
			return AT_END;
		if (!push_lost_caller(w, &step, k))
			return OUT_OF_MEMORY;
	}
	return CUT_OFF;
}

enum walk_end chain_take_behind_gap(struct running_walk *w, size_t place)
{
	enum walk_end end;

	if (!running_push(w, STACK_PC_TRUNCATED))
		return OUT_OF_MEMORY;
	end = chain_take(w, place);
	/* One such word is enough. */
	if (end == CUT_OFF && w->u->words[w->n - 1] == STACK_PC_TRUNCATED)
		w->n--;
	return end;
}

static bool agrees(struct running_walk *w, size_t k, size_t at)
{
	for (; k < w->chain_count && running_in_go(w, w->in->chain[k]); k++) {
		while (at < w->n && stack_pc_address(w->u->words[at]) != w->in->chain[k])
			at++;
		if (at++ >= w->n)
			return false;
	}
	return true;
}

bool chain_agrees(struct running_walk *w)
{
	/* C code may use the frame pointer for anything. */
	if (w->in_c)
		return true;
	/* Where its place is not known, all of it must be in the stack; but its first step, which
	 * duffzero's caller leads astray. */
	return w->guard_chain ? agrees(w, w->guard_chain, w->guard_n) : agrees(w, 2, 0);
}

bool chain_proves(struct running_walk *w)
{
	for (size_t k = w->guard_chain; k && k < w->chain_count; k++) {
		const struct step *step = steps_at(&w->u->steps, w->in->chain[k]);

		if (!step || !running_in_go(w, w->in->chain[k]))
			return false;
		if (step->flags & STEP_TOP)
			break;
	}
	return w->guard_chain && agrees(w, w->guard_chain, w->guard_n);
}
