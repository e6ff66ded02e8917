#include "perfdata/chains.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "unwind/thread_work.h"

/* Nothing is mapped below this address, and such words would mean something else. */
#define LOWEST_ADDRESS 4096
#define ADDRESS_MASK ((1ull << 48) - 1)

static struct error *push(struct chains *c, uint64_t word)
{
	if (!array_reserve(&c->words, &c->capacity, c->count + 1))
		return &error_no_memory;
	c->words[c->count++] = word;
	return NULL;
}

static uint64_t clean(uint64_t word)
{
	uint64_t address = word & ADDRESS_MASK;

	if (stack_pc_is_pseudo(word))
		return word;
	return address < LOWEST_ADDRESS ? STACK_PC_UNKNOWN : address | (word & STACK_PC_EXACT);
}

/* One word stands for the kernel's part of perf's callchain; the user's part goes to c->chain. */
static struct error *split_chain(struct chains *c, const struct recorded_sample *s,
				 bool *ret_kernel)
{
	uint64_t context = s->in_kernel ? PERF_CONTEXT_KERNEL : PERF_CONTEXT_USER;

	*ret_kernel = s->in_kernel;
	c->chain_count = 0;
	for (size_t i = 0; i < s->chain_count; i++) {
		uint64_t word = recorded_chain(s, i);

		if (word >= (uint64_t)PERF_CONTEXT_MAX) {
			context = word;
			continue;
		}
		*ret_kernel |= context == (uint64_t)PERF_CONTEXT_KERNEL;
		if (context != (uint64_t)PERF_CONTEXT_USER)
			continue;
		if (!array_reserve(&c->chain, &c->chain_capacity, c->chain_count + 1))
			return &error_no_memory;
		c->chain[c->chain_count++] = word;
	}
	return NULL;
}

static bool no_memory(void *arg, uint64_t address, void *buffer, size_t size)
{
	return false;
}

static bool no_goroutine(void *arg, uint64_t g, struct goroutine_place *ret)
{
	return false;
}

static bool no_thread_sp(void *arg, uint64_t *ret)
{
	return false;
}

/* Whether the callers are missing because they are on another stack: no size would be enough. */
static bool is_switched(const struct recorded_process *p, struct stack words)
{
	struct go_func f;
	uint32_t i = 0;

	while (i < words.count && words.pcs[i] != STACK_PC_TRUNCATED)
		i++;
	return i && i < words.count &&
	       pclntab_find(&p->program->image->functions, stack_pc_lookup(words.pcs[i - 1]), &f) &&
	       f.flags & (FUNC_SPWRITE | FUNC_TOPFRAME);
}

static void count_walk(struct chains *c, const struct recorded_process *p,
		       const struct running_stack *stack)
{
	if (!p->program)
		return;
	c->counts.whole += stack->stack != STACK_NONE && !stack->truncated;
	c->counts.truncated += stack->stack != STACK_NONE && stack->truncated;
	c->counts.switched += stack->stack != STACK_NONE && stack->truncated &&
			      is_switched(p, stacks_get(p->stacks, stack->stack));
	c->counts.unknown += stack->stack == STACK_NONE;
}

static struct error *mark_work(struct recorded_process *p, struct running_stack *stack)
{
	struct stack words = stacks_get(p->stacks, stack->stack);

	if (!p->program || !stack->is_scheduler)
		return NULL;
	return work_mark(p->stacks, stack->stack,
			 work_of_thread(&p->program->image->functions, &words), &stack->stack);
}

/* Walks from the registers and the bytes of stack. *ret_done is false when they lead nowhere. */
static struct error *walk(struct chains *c, struct recorded_process *p,
			  const struct recorded_sample *s, bool *ret_done)
{
	const struct running_source source = {no_memory, no_goroutine, no_thread_sp, NULL};
	const struct running_sample in = {
		.regs = s->regs,
		.bytes = s->stack,
		.size = s->stack_size,
		.chain = c->chain,
		.chain_count = c->chain_count,
	};
	struct running_stack stack;
	struct stack words;
	struct error *err = running_unwind(p->unwinder, &in, &source, &stack);

	if (err)
		return err;
	count_walk(c, p, &stack);
	*ret_done = stack.stack != STACK_NONE;
	if (!*ret_done)
		return NULL;
	err = mark_work(p, &stack);
	words = stacks_get(p->stacks, stack.stack);
	for (uint32_t i = 0; !err && i < words.count; i++)
		err = push(c, clean(words.pcs[i]));
	return err;
}

static struct error *place_of(struct chains *c, const struct recorded_program *program, uint64_t pc,
			      struct record_place *ret)
{
	return frame_records_at(&c->records, program->image, program->number, pc, ret);
}

/* Adds the caller that a frame-pointer callchain lacks: that of the function at an exact pc, if the
 * function has no frame record of its own. */
static struct error *push_lost_caller(struct chains *c, struct record_place place,
				      const struct recorded_sample *s, bool *lost)
{
	const struct register_roles *roles = register_roles(c->machine);
	uint64_t lr;

	if (place.owner == RECORD_OWN || place.owner == RECORD_AHEAD)
		return NULL;
	if (place.lr_is_caller && s && c->machine == MACHINE_ARM64 &&
	    registers_get(&s->regs, roles->lr, &lr)) {
		c->counts.caller_found++;
		return push(c, clean(lr));
	}
	*lost = true;
	return push(c, STACK_PC_NO_CALLER);
}

/* How the inner function of a callchain came to run. */
enum interruption { CALLED, BY_SIGNAL, BY_INJECTED_CALL };

static enum interruption interruption_by(const struct recorded_program *program, uint64_t pc)
{
	struct go_func f;

	if (!pclntab_find(&program->image->functions, pc, &f))
		return CALLED;
	if (!strncmp(f.name, "runtime.sigtramp", 16) && strcmp(f.name, "runtime.sigtrampgo"))
		return BY_SIGNAL;
	return !strcmp(f.name, "runtime.asyncPreempt") || !strcmp(f.name, "runtime.sigpanic")
		       ? BY_INJECTED_CALL
		       : CALLED;
}

/* Adds the words outside the innermost one. The callchain lacks the function that a signal
 * interrupted. */
static struct error *take_callers(struct chains *c, const struct recorded_process *p, size_t i,
				  bool *lost)
{
	enum interruption by = interruption_by(p->program, c->chain[0]);
	struct error *err = NULL;

	for (; !err && i < c->chain_count; i++) {
		uint64_t exact = by == BY_INJECTED_CALL ? STACK_PC_EXACT : 0;
		struct record_place place;

		err = push(c, clean(c->chain[i] | exact));
		if (!err && exact)
			err = place_of(c, p->program, c->chain[i], &place);
		if (!err && exact)
			err = push_lost_caller(c, place, NULL, lost);
		by = interruption_by(p->program, c->chain[i] - !exact);
		if (!err && by == BY_SIGNAL) {
			*lost = true;
			err = push(c, STACK_PC_NO_CALLER);
		}
	}
	return err;
}

static struct error *take_go_chain(struct chains *c, const struct recorded_process *p,
				   const struct recorded_sample *s)
{
	bool is_doubled = false, lost = false;
	struct record_place place;
	struct error *err = place_of(c, p->program, c->chain[0], &place);

	if (!err)
		err = push(c, clean(c->chain[0] | STACK_PC_EXACT));
	if (!err)
		is_doubled = place.owner == RECORD_AHEAD;
	if (!err)
		err = push_lost_caller(c, place, s, &lost);
	if (!err)
		err = take_callers(c, p, is_doubled ? 2 : 1, &lost);
	c->counts.by_chain++;
	c->counts.doubled += is_doubled;
	c->counts.no_caller += lost;
	return err;
}

/* A 0 stands where callers are missing. */
static struct error *take_rewritten(struct chains *c)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < c->chain_count; i++) {
		uint64_t missing = i + 1 < c->chain_count ? STACK_PC_NO_CALLER : STACK_PC_TRUNCATED;

		err = push(c,
			   c->chain[i] ? clean(c->chain[i] | (i ? 0 : STACK_PC_EXACT)) : missing);
	}
	return err;
}

static struct error *take_chain(struct chains *c, const struct recorded_process *p,
				const struct recorded_sample *s)
{
	struct error *err = NULL;

	if (s->is_rewritten)
		return take_rewritten(c);
	if (p->program && c->chain_count > 1)
		return take_go_chain(c, p, s);
	for (size_t i = 0; !err && i < c->chain_count; i++)
		err = push(c, clean(c->chain[i] | (i ? 0 : STACK_PC_EXACT)));
	return err;
}

/* Adds the pc alone. */
static struct error *take_pc(struct chains *c, const struct recorded_sample *s)
{
	return s->in_kernel || !s->ip ? NULL : push(c, clean(s->ip | STACK_PC_EXACT));
}

bool chains_unwind(const struct chains *c, const struct recorded_sample *s)
{
	const struct register_roles *roles = register_roles(c->machine);
	uint64_t word;

	return s->stack_size && registers_get(&s->regs, roles->pc, &word) &&
	       registers_get(&s->regs, roles->sp, &word);
}

struct error *chains_make(struct chains *c, struct recorded_process *p,
			  const struct recorded_sample *s)
{
	bool in_kernel, done = false;
	struct error *err = split_chain(c, s, &in_kernel);

	c->count = 0;
	c->counts.samples++;
	if (!err && in_kernel)
		err = push(c, STACK_PC_KERNEL);
	if (!err && chains_unwind(c, s))
		err = walk(c, p, s, &done);
	if (!err && !done && c->chain_count)
		return take_chain(c, p, s);
	if (!err && !done)
		err = take_pc(c, s);
	return err;
}

void chains_release(struct chains *c)
{
	free(c->words);
	free(c->chain);
	frame_records_release(&c->records);
	*c = (struct chains){0};
}
