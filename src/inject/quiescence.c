#include "inject/quiescence.h"

#include <stdlib.h>
#include <string.h>

#include "agent/cpu.h"
#include "inject/interrupted.h"

/* Words of a stack from the stack pointer on: more than the scheduler's functions take. */
#define STACK_WORDS 256
/* Bytes of a stack with signal handlers: all other threads are stopped meanwhile. */
#define HANDLER_BYTES (1u << 20)
/* And of all of them, for a target may have thousands that say so. */
#define HANDLERS_BYTES (32u << 20)
/* On the system stack, of a call of the vDSO. */
#define VDSO_FRAMES 2
/* Threads that are read at once. */
#define SEEN_AT_ONCE 32

static bool in_the_middle(const struct code_head *head, uint64_t pc)
{
	for (unsigned int i = 0; i < head->site_count; i++) {
		const struct code_site *site = &head->sites[i];
		uint64_t changed = site->length < SITE_JUMP_BYTES ? site->length : SITE_JUMP_BYTES;

		if (site->address && pc > site->address && pc < site->address + changed)
			return true;
	}
	return false;
}

/* Among the first so many. */
static bool has(const struct quiescence_functions *functions, size_t count, uint64_t pc)
{
	for (size_t i = 0; i < count; i++)
		if (pc - functions->items[i].start < functions->items[i].size)
			return true;
	return false;
}

/* A part of a stack, from `at` on. Unreadable words are 0. */
struct stack_piece {
	uint64_t at;
	uint64_t words[STACK_WORDS];
};

/* The memory read for one thread: of its current stack, and of the stack from which it called the
 * vDSO or systemstack; `at` is 0 without one. */
struct seen {
	struct thread_registers registers;
	struct stack_piece own, other;
};

static bool is_a_function(const void *functions, uint64_t pc)
{
	const struct quiescence_functions *f = functions;

	return has(f, f->count, pc);
}

static bool handler_returns_to(struct target *t, const struct quiescence_functions *functions,
			       const struct seen *s, size_t *left)
{
	const struct interrupted_place place = {is_a_function, functions};
	const struct thread_registers *r = &s->registers;
	size_t given = *left < HANDLER_BYTES ? *left : HANDLER_BYTES, rest = given;
	bool there = interrupted_look(t, r->sp, r->tls, r->mask, &rest, place) == INTERRUPTED_THERE;

	*left -= given - rest;
	return there;
}

/* The frame: where the one before it is, and the return address. */
static bool frame_in(const struct stack_piece *s, uint64_t at, uint64_t ret[2])
{
	if (!s->at || at < s->at || at - s->at > sizeof(s->words) - 16)
		return false;
	memcpy(ret, (const uint8_t *)s->words + (at - s->at), 16);
	return true;
}

/* Where the thread's frames leave the stack that it is on, if that is among the first of them. */
static uint64_t other_stack(const struct seen *s)
{
	uint64_t at = s->registers.frame, frame[2];

	for (int i = 0; i < VDSO_FRAMES && frame_in(&s->own, at, frame); i++)
		at = frame[0];
	return frame_in(&s->own, at, frame) ? 0 : at;
}

static struct error *must_check read_pieces(struct target *t, struct stack_piece **pieces,
					    size_t count)
{
	struct target_range ranges[SEEN_AT_ONCE] = {0};
	bool ok[SEEN_AT_ONCE];
	struct error *err;

	for (size_t i = 0; i < count; i++)
		ranges[i] = (struct target_range){pieces[i]->at, sizeof(pieces[i]->words),
						  pieces[i]->words};
	err = target_read_each(t, ranges, count, ok);
	for (size_t i = 0; !err && i < count; i++)
		if (!ok[i])
			memset(pieces[i]->words, 0, sizeof(pieces[i]->words));
	return err;
}

static struct error *must_check read_stacks(struct target *t, struct seen *seen, size_t count)
{
	struct stack_piece *pieces[SEEN_AT_ONCE];
	struct error *err;
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		pieces[i] = &seen[i].own;
		seen[i].own.at = seen[i].registers.sp - CPU_RECORD_BELOW_SP;
	}
	err = read_pieces(t, pieces, count);
	for (size_t i = 0; !err && i < count; i++) {
		seen[i].other.at = other_stack(&seen[i]);
		if (seen[i].other.at)
			pieces[n++] = &seen[i].other;
	}
	return err ? err : read_pieces(t, pieces, n);
}

/*
 * Whether it runs one of them, or a callee of one. A callee may have no frame, or none yet
 * (osyield(), while the goroutine's stack is scanned), and may call others. Functions further up
 * than the caller do not count if a goroutine parks in them: they call the scheduler.
 */
static bool is_inside(const struct quiescence_functions *functions, const struct seen *s)
{
	uint64_t at = s->registers.frame, frame[2];
	size_t count = functions->count;

	if (has(functions, count, s->registers.pc) || has(functions, count, s->registers.lr) ||
	    has(functions, count, s->own.words[0]))
		return true;
	for (int i = 0; i < STACK_WORDS; i++) {
		if (!frame_in(&s->own, at, frame) && !frame_in(&s->other, at, frame))
			return false;
		if (has(functions, count, frame[1]))
			return true;
		at = frame[0];
		count = functions->changing;
	}
	return false;
}

/* Some of those that have stopped and were not looked at, from *next on; in *ret_count how many. */
static struct error *must_check see_some(struct target *t, const struct code_head *head,
					 struct threads *threads, size_t *next, struct seen *seen,
					 size_t *ret_count)
{
	size_t n = 0;

	for (; *next < threads->count && n < SEEN_AT_ONCE; ++*next) {
		struct stopped_thread *thread = &threads->items[*next];

		if (!thread->is_read || thread->read_errno || thread->looked_at)
			continue;
		thread->looked_at = true;
		seen[n++].registers = thread->registers;
		if (in_the_middle(head, thread->registers.pc))
			return error_format(
				ERROR_FAILED,
				"internal error: a thread of process %d is stopped inside a "
				"patched instruction",
				target_pid(t));
	}
	*ret_count = n;
	return read_stacks(t, seen, n);
}

struct error *quiescence_check_asleep(struct target *t, const struct code_head *head,
				      struct threads *threads, struct quiescence *s,
				      bool *ret_inside)
{
	size_t next = 0, n = 0, left = HANDLERS_BYTES;
	struct error *err = NULL;

	*ret_inside = false;
	threads_read_registers(threads);
	while (!err && next < threads->count) {
		err = see_some(t, head, threads, &next, s->seen, &n);
		for (size_t i = 0; !err && i < n; i++)
			*ret_inside |= is_inside(&s->functions, &s->seen[i]) ||
				       handler_returns_to(t, &s->functions, &s->seen[i], &left);
	}
	return err;
}

static bool changing_on_systemstack(const struct quiescence_functions *functions,
				    const struct on_systemstack *s)
{
	for (size_t i = 0; i < s->count; i++)
		if (has(functions, functions->changing, s->items[i].caller))
			return true;
	return false;
}

struct error *quiescence_prepare(struct target *t, const struct runtime_words *words,
				 struct quiescence *s)
{
	if (!s->seen)
		s->seen = malloc(SEEN_AT_ONCE * sizeof(s->seen[0]));
	if (!s->seen)
		return &error_no_memory;
	memset(s->seen, 0, SEEN_AT_ONCE * sizeof(s->seen[0])); /* it is there now */
	return on_systemstack_prepare(t, words, &s->functions.systemstack_switch,
				      &s->on_systemstack);
}

struct error *quiescence_check(struct target *t, const struct code_head *head,
			       const struct runtime_words *words, struct threads *threads,
			       struct quiescence *s, bool *ret_inside)
{
	struct error *err = on_systemstack_read(t, words, threads->helpers, &s->on_systemstack);

	*ret_inside = false;
	if (!err)
		err = quiescence_check_asleep(t, head, threads, s, ret_inside);
	for (size_t i = 0; i < threads->count; i++)
		if (threads->items[i].looked_at)
			on_systemstack_returned(words, &s->on_systemstack,
						threads->items[i].registers.sp);
	*ret_inside |= changing_on_systemstack(&s->functions, &s->on_systemstack);
	return err;
}

void quiescence_release(struct quiescence *s)
{
	on_systemstack_release(&s->on_systemstack);
	free(s->seen);
	s->seen = NULL;
}
