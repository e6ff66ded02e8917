#include "unwind/running_thread.h"

#include <stdlib.h>

#include "unwind/running_walk.h"

struct running_unwinder *running_unwinder_create(struct stacks *stacks,
						 const struct pclntab *functions,
						 enum machine machine, struct modules *modules)
{
	struct running_unwinder *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->stacks = stacks;
	u->steps.functions = u->by_dwarf.functions = functions;
	u->by_dwarf.frames = stacks_unwinding(stacks)->frames;
	u->machine = machine;
	u->modules = modules;
	return u;
}

void running_unwinder_read_code(struct running_unwinder *u, const struct image *program)
{
	u->program = program;
}

void running_unwinder_expect_moves(struct running_unwinder *u)
{
	u->stacks_move = true;
}

void running_unwinder_destroy(struct running_unwinder *u)
{
	if (!u)
		return;
	free(u->steps.slots);
	free(u->by_dwarf.slots);
	free(u->words);
	map_release(&u->systemstack_calls);
	free(u);
}

/* The start function of a goroutine whose g is unknown: the outermost frame. Inner frames may be
 * missing; if the outer ones are, it is unknown. */
static uint64_t start_of(const struct running_walk *w)
{
	struct go_func f;

	for (size_t i = w->n; i-- > 0;) {
		uint64_t word = w->u->words[i];

		if (stack_pc_is_pseudo(word) || !running_in_go(w, stack_pc_address(word)) ||
		    !pclntab_find(w->u->steps.functions, stack_pc_lookup(word), &f))
			return 0;
		if (!(f.flags & FUNC_TOPFRAME))
			return f.entry;
	}
	return 0;
}

static struct error *finish(struct running_walk *w, enum walk_end end, struct running_stack *ret)
{
	struct error *err = NULL;

	/* Old assembly uses the g register for anything (crypto/sha256 up to Go 1.20). */
	if (!w->result.is_scheduler)
		switch_find_goroutine(w, w->sp0);
	if (end == CUT_OFF)
		end = running_mark_cut(w);
	if (end == OUT_OF_MEMORY)
		return &error_no_memory;
	if (end == NOT_A_STACK)
		w->n = 0;
	if (w->result.g)
		w->result.start_pc = w->place.start_pc;
	else if (!w->result.is_scheduler)
		w->result.start_pc = start_of(w);
	if (w->n)
		err = stacks_intern(w->u->stacks, w->u->words, w->n, &w->result.stack);
	w->result.exact = w->result.stack;
	*ret = w->result;
	return err;
}

struct error *running_unwind(struct running_unwinder *u, const struct running_sample *sample,
			     const struct running_source *source, struct running_stack *ret)
{
	struct running_walk w = {
		.u = u,
		.in = sample,
		.source = source,
		.roles = register_roles(u->machine),
		.regs = sample->regs,
		.exact = true,
		.chain_count = sample->chain_count,
		.next_guard = GUARD_SAME_BYTES,
	};
	enum walk_end end;
	struct error *err;

	w.sp0 = running_sp(&w);
	if (sample->g_is_certain && running_place_of(&w, sample->g, &w.place))
		w.result.g = sample->g;
	chain_follow_captured(&w);
	end = running_walk_all(&w);
	err = finish(&w, end, ret);
	if (err || ret->stack == STACK_NONE || stacks_unwinding(u->stacks)->method == UNWIND_PCSP)
		return err;
	return running_show_by_method(&w, ret);
}
