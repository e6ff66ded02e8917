/* Stacks of running goroutines by the methods for comparison. */
#include "unwind/running_walk.h"

static bool is_code(const struct running_walk *w, uint64_t pc)
{
	return running_in_go(w, pc) || (w->u->modules && modules_have(w->u->modules, pc - 1));
}

/* One that has not come further than to the function where it began may have no record yet. */
static bool is_at_start(const struct running_walk *w)
{
	struct go_func f;

	return w->result.g && w->n == 1 &&
	       pclntab_find(w->u->steps.functions, stack_pc_lookup(w->u->words[0]), &f) &&
	       f.entry == w->place.start_pc;
}

/* Takes the kernel's chain as it is, as `perf record -g` and profilers in eBPF do. */
static enum walk_end take_chain(struct running_walk *w)
{
	if (!running_push(w, running_pc(w) | STACK_PC_EXACT))
		return OUT_OF_MEMORY;
	for (size_t k = 1; k < w->in->chain_count && is_code(w, w->in->chain[k]); k++) {
		const struct step *step = steps_at(&w->u->steps, w->in->chain[k]);

		if (!step || !running_push(w, w->in->chain[k]))
			return OUT_OF_MEMORY;
		w->result.used_chain = true;
		if (step->flags & STEP_TOP)
			return AT_END;
	}
	return w->result.is_scheduler || is_at_start(w) ? AT_END : CUT_OFF;
}

struct error *running_show_by_method(const struct running_walk *exact, struct running_stack *ret)
{
	struct running_walk w = {
		.u = exact->u,
		.in = exact->in,
		.source = exact->source,
		.roles = exact->roles,
		.regs = exact->in->regs,
		.sp0 = exact->sp0,
		.exact = true,
		.by_dwarf = true,
		.chain_count = exact->in->chain_count,
		.next_guard = GUARD_SAME_BYTES,
		.result = {.g = ret->g, .is_scheduler = ret->is_scheduler},
		.place = exact->place,
	};
	bool by_fp = stacks_unwinding(w.u->stacks)->method == UNWIND_FP;
	enum walk_end end = by_fp ? take_chain(&w) : running_walk_all(&w);

	if (end == CUT_OFF)
		end = running_mark_cut(&w);
	if (end == OUT_OF_MEMORY)
		return &error_no_memory;
	ret->truncated = w.result.truncated;
	ret->used_chain = w.result.used_chain;
	ret->used_memory = w.result.used_memory;
	ret->stack = STACK_NONE;
	return w.n ? stacks_intern(w.u->stacks, w.u->words, w.n, &ret->stack) : NULL;
}
