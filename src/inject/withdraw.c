#include "inject/withdraw.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/abi.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "inject/fault.h"
#include "inject/places.h"
#include "inject/threads.h"

/* How long we wait for threads that do not stop, or do not leave the agent. */
#define PATIENCE_NS 5000000000ull
/* Between two looks: longer each time, for on a busy machine a thread that was stopped has to wait
 * for a processor before it can go on, and each look stops it again. */
#define PAUSE_US 1000
#define MOST_PAUSE_US 200000
/* Of a stack, from the stack pointer on: more than a signal handler and its frame take. */
#define HANDLER_BYTES 32768
#define RIP_IN_CONTEXT ((ssize_t)offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]))
/* With all of a processor's registers. */
#define MAX_SIGNAL_FRAME 16384

struct quiet {
	struct withdrawal *w;
	struct code_head *head;
	struct threads threads;
	bool is_quiet;
};

static struct error *must_check write_at(const struct withdrawal *w, uint64_t address,
					 const void *bytes, size_t n)
{
	ssize_t done = pwrite(w->memory, bytes, n, address);

	if (done == (ssize_t)n)
		return NULL;
	if (!done || errno == ESRCH)
		return error_format(ERROR_GONE, "process %d has ended", target_pid(w->t));
	return error_errno(ERROR_DENIED, errno, "cannot write to process %d's memory",
			   target_pid(w->t));
}

/*
 * The pc at `slot` is what the kernel saved of a thread that handles a signal now, and has SP at
 * `sp`: it is on the signal stack that is saved with it, or, where the handler has none, on the one
 * that was interrupted. Frames of signals long handled, of other threads, do lie near: Go's heap
 * has all their stacks.
 */
static bool is_being_handled(const uint8_t *slot, uint64_t address, uint64_t sp)
{
	const uint8_t *context = slot - RIP_IN_CONTEXT;
	uint64_t interrupted_sp;
	stack_t stack;

	memcpy(&stack, context + offsetof(ucontext_t, uc_stack), sizeof(stack));
	memcpy(&interrupted_sp, context + offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]), 8);
	return sp - (uint64_t)stack.ss_sp < stack.ss_size ||
	       interrupted_sp - address < MAX_SIGNAL_FRAME;
}

/* A thread in a signal handler that interrupted our code: the kernel has put its pc on the stack.
 * Nothing else writes addresses of our code to any stack but ours. */
static bool handler_returns_to_us(const struct quiet *q, uint64_t sp)
{
	static uint8_t stack[HANDLER_BYTES];
	uint64_t from = sp & ~7ull, pc;
	ssize_t n = pread(q->w->memory, stack, sizeof(stack), from);

	for (ssize_t i = RIP_IN_CONTEXT; i + 8 <= n; i += 8) {
		memcpy(&pc, stack + i, sizeof(pc));
		if (code_has(q->head, pc) && is_being_handled(stack + i, from + i, sp))
			return true;
	}
	return false;
}

static bool thread_is_out(const struct quiet *q, const struct stopped_thread *thread)
{
	struct user_regs_struct u;
	uint64_t mask = 0;

	if (!thread->stopped)
		return true;
	if (ptrace(PTRACE_GETREGS, thread->id, NULL, &u))
		return errno == ESRCH;
	if (code_has(q->head, u.rip))
		return false;
	/* In a handler, at least the signal itself is blocked. */
	if (!ptrace(PTRACE_GETSIGMASK, thread->id, sizeof(mask), &mask) && !mask)
		return true;
	return !handler_returns_to_us(q, u.rsp);
}

static bool own_slots_are_free(const struct withdrawal *w)
{
	const uint8_t *slot = (const uint8_t *)w->shared + w->slots_offset;

	for (uint32_t i = 0; i < w->slots; i++, slot += AGENT_SLOT_BYTES)
		if (__atomic_load_n(&((const struct agent_slot *)slot)->busy, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

/* Slots that are in use, of any P or spare. */
static bool slots_are_free(const struct quiet *q)
{
	uint64_t at = q->head->slots;
	struct agent_slot slot;

	if (q->w->shared)
		return own_slots_are_free(q->w);
	if (!at)
		return true;
	for (; at < q->head->spare_slots + AGENT_SPARE_SLOTS * (uint64_t)AGENT_SLOT_BYTES;
	     at += AGENT_SLOT_BYTES)
		if (pread(q->w->memory, &slot.busy, sizeof(slot.busy),
			  at + offsetof(struct agent_slot, busy)) == sizeof(slot.busy) &&
		    slot.busy)
			return false;
	return true;
}

static bool look_around(const struct quiet *q)
{
	for (size_t i = 0; i < q->threads.count; i++)
		if (!thread_is_out(q, &q->threads.items[i]))
			return false;
	return slots_are_free(q);
}

/* Bytes that are not our jump are somebody else's business, or never were changed. */
static struct error *must_check restore_code(const struct quiet *q, const struct places *now)
{
	static const uint32_t disabled = 0;
	const struct code_head *head = q->head;
	struct error *err = NULL;

	for (unsigned int i = 0; !err && i < head->place_count; i++) {
		if (places_is_jump(now, head, i))
			err = write_at(q->w, head->places[i].address, head->places[i].bytes,
				       PLACE_JUMP_BYTES);
		fault_point("restored-one");
	}
	if (!err && head->control)
		err = write_at(q->w, head->control, &disabled, sizeof(disabled));
	return err;
}

static struct error *must_check stop_and_look(void *arg)
{
	struct quiet *q = arg;
	uint64_t since, took;
	struct places now;
	struct error *err = places_read(q->w->t, q->head, &now);

	if (!err)
		err = threads_stop_all(&q->threads, &since);
	if (q->threads.stood_ns > q->w->stop_ns)
		q->w->stop_ns = q->threads.stood_ns;
	if (err)
		return err;
	err = restore_code(q, &now);
	q->is_quiet = !err && look_around(q);
	took = threads_resume(&q->threads) - since;
	if (took > q->w->stop_ns)
		q->w->stop_ns = took;
	return err;
}

/* ERROR_FAULT: its threads could not be stopped for so long. */
static struct error *must_check make_quiet(struct quiet *q)
{
	uint64_t start = clock_now(), until;
	unsigned int pause = PAUSE_US;

	until = clock_now() + PATIENCE_NS;
	for (;;) {
		struct error *err = surgery(stop_and_look, q);

		bool borrowed = threads_are_borrowed(err, start);

		if ((err && err != &error_fault && !borrowed) || q->is_quiet || clock_now() > until)
			return err;
		if (err)
			threads_let_run(&q->threads, until);
		else
			usleep(pause);
		error_destroy(err);
		pause = pause < MOST_PAUSE_US / 2 ? 2 * pause : MOST_PAUSE_US;
	}
}

struct error *withdraw_code(struct withdrawal *w, struct code_head *head)
{
	struct quiet q = {.w = w, .head = head, .threads = {.pid = target_pid(w->t)}};
	struct error *err = make_quiet(&q);
	pid_t pid = q.threads.pid;

	if (err == &error_fault)
		err = error_wrap(threads_stand(pid, q.threads.stuck ?: pid),
				 "the agent is still in process %d", pid);
	else if (!err && !q.is_quiet)
		err = error_format(ERROR_FAILED,
				   "a thread of process %d has not left the agent for 5 s; its "
				   "code is restored, the agent's memory is still there",
				   pid);
	threads_release(&q.threads);
	fault_point("code-restored");
	return err;
}

static struct error *must_check call(struct remote *r, long number, uint64_t a, uint64_t b)
{
	int64_t result;

	return remote_call(r, number, (uint64_t[6]){a, b}, &result);
}

/* The code page goes last: it says what else there is. */
struct error *withdraw_memory(struct withdrawal *w, struct remote *r, const struct leftovers *l)
{
	uint64_t kept = w->keep_code_page && l->has_head ? l->head.code : 0;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < l->descriptor_count; i++)
		err = call(r, SYS_close, l->descriptors[i], 0);
	for (size_t i = l->range_count; !err && i-- > 0;) {
		uint64_t start = l->ranges[i].address, end = start + l->ranges[i].size;

		if (kept && start == kept)
			start += l->head.stub_bytes;
		if (end > start)
			err = call(r, SYS_munmap, start, end - start);
		fault_point("unmapped-one");
	}
	return err;
}

struct memory_step {
	struct withdrawal *w;
	const struct leftovers *l;
};

static struct error *must_check withdraw_memory_step(void *arg)
{
	struct memory_step *step = arg;
	struct withdrawal *w = step->w;
	struct remote r;
	struct error *err = remote_begin(&r, w->t, w->img, w->lay, w->memory, w->suspend_seccomp);

	if (err)
		return err;
	err = withdraw_memory(w, &r, step->l);
	remote_end(&r);
	return err;
}

/* Nothing of it is used any more: whoever finds the page needs to know nothing but that. */
static struct error *must_check clear_head(const struct withdrawal *w, const struct leftovers *l)
{
	struct code_head head = l->head;

	memset(head.places, 0, sizeof(head.places));
	memset(head.far, 0, sizeof(head.far));
	head.tracer = 0;
	head.slots = head.spare_slots = head.control = 0;
	return write_at(w, l->head.code, &head, code_head_bytes(&head));
}

/* There is nothing to do. */
static bool is_clean(const struct withdrawal *w, const struct leftovers *l)
{
	return leftovers_none(l) || (w->keep_code_page && leftovers_kept_page_alone(l));
}

struct error *withdraw(struct withdrawal *w)
{
	_cleanup_leftovers_ struct leftovers l = {0};
	struct memory_step step = {w, &l};
	struct error *err = leftovers_find(w->t, w->img, w->claim, &l);

	if (err || is_clean(w, &l))
		return err;
	if (l.has_head && (l.patched || (l.head.slots && !w->never_ran)))
		err = withdraw_code(w, &l.head);
	if (!err)
		err = surgery(withdraw_memory_step, &step);
	if (!err && l.has_head && w->keep_code_page)
		err = clear_head(w, &l);
	return err;
}
