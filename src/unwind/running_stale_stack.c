/*
 * Stale stacks: the GC has moved a stack that was borrowed under systemstack.
 *
 * Up to Go 1.25 the collector may shrink the stack of a goroutine that waits under systemstack
 * while its thread helps to mark, stops the world or waits for all Ps: runtime/stack.go,
 * isShrinkStackSafe. Code on the thread's own stack keeps the old frame pointer. It leads to the
 * stack's old place, and so does the kernel's chain: to free memory or, from its outermost frames
 * on, to another goroutine's stack. Some such chains look like a whole stack and are a mix of two.
 * Only g.sched is updated.
 */
#include "unwind/running_walk.h"
#include "unwind/switches.h"

/* The frames of the function whose stack is borrowed and of its calling closure: at most 216 bytes,
 * Go 1.17 to 1.25. */
#define LENDER_BYTES 256

/* The goroutine that the thread works for; NULL: none. */
static const struct sampled_goroutine *sampled_of(const struct running_walk *w)
{
	const struct sampled_goroutine *m = w->in->sampled;

	if (!m || m->g != (w->result.g ? w->result.g : w->in->g) ||
	    !running_is_on(&m->place, m->place.sp))
		return NULL;
	return m;
}

enum stale stale_under_chain(const struct running_walk *w, bool borrowed)
{
	const struct sampled_goroutine *m = sampled_of(w);

	if (m && m->left_fp)
		return running_is_on(&m->place, m->left_fp) ? STALE_NOT : STALE;
	return borrowed && w->u->stacks_move ? STALE_PERHAPS : STALE_NOT;
}

bool is_on_borrowed_stack(struct running_walk *w)
{
	for (size_t i = 0; i < w->n; i++) {
		uint64_t word = w->u->words[i];
		const struct step *step;

		if (stack_pc_is_pseudo(word) || !running_in_go(w, stack_pc_address(word)))
			continue;
		step = steps_at(&w->u->steps, stack_pc_address(word));
		if (step && step->stack_switch == SWITCH_BORROWS)
			return true;
	}
	return false;
}

/* The goroutine with this address, if its stack has fp. */
static bool is_lender(struct running_walk *w, uint64_t g, uint64_t fp)
{
	struct goroutine_place place;

	if (!g || !w->source->goroutine(w->source->arg, g, &place) || !running_is_on(&place, fp))
		return false;
	w->result.g = g;
	w->place = place;
	return true;
}

bool borrowed_find_lender(struct running_walk *w, uint64_t fp)
{
	uint64_t sp = running_sp(w), word;

	if (w->in->sampled || w->result.g || !w->u->stacks_move || !is_on_borrowed_stack(w))
		return false;
	for (uint64_t at = sp - LENDER_BYTES; at < sp; at += 8)
		if (running_is_captured(w, at) && running_word(w, at, &word) &&
		    is_lender(w, word, fp))
			return true;
	return false;
}

void stale_truncate_chain(struct running_walk *w)
{
	w->chain_fp = 0;
	for (size_t k = 0; k < w->chain_count; k++) {
		const struct step *step = steps_at(&w->u->steps, w->in->chain[k]);

		if (step && (step->stack_switch == SWITCH_SYSTEMSTACK ||
			     step->stack_switch == SWITCH_MORESTACK))
			w->chain_count = k + 1;
	}
}

bool stale_find_goroutine(struct running_walk *w)
{
	const struct sampled_goroutine *m = sampled_of(w);

	if (m) {
		w->result.g = m->g;
		w->place = m->place;
	} else if (!w->u->stacks_move || !is_on_borrowed_stack(w)) {
		return false;
	}
	stale_truncate_chain(w);
	return m != NULL;
}
