#include "inject/detach.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/abi.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "inject/fault.h"
#include "inject/forks.h"
#include "inject/interrupted.h"
#include "inject/sites.h"
#include "inject/threads.h"
#include "target/proc_status.h"

/* How long we wait for threads that do not stop, or do not leave the agent: with what comes before
 * and behind it, the user waits for 5 s. */
#define PATIENCE_NS 4800000000ull
/* Between two looks: longer each time, for on a busy machine a thread that was stopped has to wait
 * for a CPU before it can go on, and each look stops it again. */
#define PAUSE_US 1000
#define MOST_PAUSE_US 200000
/* The largest stack that is searched in a thread that may be in a signal handler; only that thread
 * is stopped meanwhile. */
#define STACK_BYTES (64u << 20)
/* The limit for all threads in one look: a target may have thousands that block signals. */
#define LOOK_BYTES (256u << 20)

/*
 * Once the jumps are gone no thread comes into the agent that is not in it. So all threads are
 * stopped once, to restore the code and to find threads that may be in there: those that have their
 * pc there, and those that may be in a signal handler. The others are out for good; these are
 * looked at one by one, until they are.
 */
struct quiet {
	struct detachment *w;
	struct code_head *head;
	struct threads threads;
	bool is_restored;
	pid_t *suspects;
	size_t suspect_count, suspect_capacity;
	size_t next; /* the suspect that is looked at next */
	uint64_t until;
};

static bool is_in_code(const void *head, uint64_t pc)
{
	return code_has(head, pc);
}

/* Whether it is, or may be. *left bounds the bytes of stacks that are read. */
static bool is_in_agent(const struct quiet *q, pid_t id, size_t *left)
{
	size_t given = *left < STACK_BYTES ? *left : STACK_BYTES, rest = given;
	const struct interrupted_place agent = {is_in_code, q->head};
	struct thread_registers r;
	enum interrupted interrupted;

	if (!thread_registers_read(id, &r))
		return errno != ESRCH;
	if (code_has(q->head, r.pc))
		return true;
	interrupted = interrupted_look(q->w->t, r.sp, r.tls, r.mask, &rest, agent);
	*left -= given - rest;
	return interrupted != INTERRUPTED_ELSEWHERE;
}

/* In a handler, at least the signal itself is blocked. */
static bool is_suspect(const struct quiet *q, const struct stopped_thread *thread)
{
	if (thread->read_errno)
		return thread->read_errno != ESRCH;
	return thread->registers.mask || code_has(q->head, thread->registers.pc);
}

/* Examines the threads that have stopped since the last call, and notes those that may be in the
 * agent. */
static struct error *must_check note_suspects(struct quiet *q)
{
	if (!array_reserve(&q->suspects, &q->suspect_capacity, q->suspect_count + q->threads.count))
		return &error_no_memory;
	threads_read_registers(&q->threads);
	for (size_t i = 0; i < q->threads.count; i++) {
		struct stopped_thread *thread = &q->threads.items[i];

		if (!thread->is_read || thread->looked_at)
			continue;
		thread->looked_at = true;
		if (is_suspect(q, thread))
			q->suspects[q->suspect_count++] = thread->id;
	}
	return NULL;
}

static bool own_slots_are_free(const struct detachment *w)
{
	const uint8_t *slot = (const uint8_t *)w->shared + w->slots_offset;

	for (uint32_t i = 0; i < w->slots; i++, slot += AGENT_SLOT_BYTES)
		if (__atomic_load_n(&((const struct agent_slot *)slot)->busy, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

/* Slots that are in use, of any P or fallback. */
static bool slots_are_free(const struct quiet *q)
{
	uint64_t at = q->head->slots;
	struct agent_slot slot;

	if (q->w->shared)
		return own_slots_are_free(q->w);
	if (!at)
		return true;
	for (; at < q->head->fallback_slots + AGENT_FALLBACK_SLOTS * (uint64_t)AGENT_SLOT_BYTES;
	     at += AGENT_SLOT_BYTES)
		if (pread(q->w->memory, &slot.busy, sizeof(slot.busy),
			  at + offsetof(struct agent_slot, busy)) == sizeof(slot.busy) &&
		    slot.busy)
			return false;
	return true;
}

/* Bytes that are not gospect's jump belong to another tool, or were never changed. */
static struct error *must_check restore_code(const struct quiet *q, const struct sites *now)
{
	static const uint32_t disabled = 0;
	const struct code_memory code = threads_code(&q->threads, q->w->memory);
	const struct code_head *head = q->head;
	struct error *err = NULL;

	for (unsigned int i = 0; !err && i < head->site_count; i++) {
		if (sites_is_jump(now, head, i))
			err = code_memory_write(code, head->sites[i].address, head->sites[i].bytes,
						SITE_JUMP_BYTES);
		fault_point("restored-one");
	}
	if (!err && head->control)
		err = code_memory_write(code, head->control, &disabled, sizeof(disabled));
	return err;
}

static struct error *must_check stop_all(struct quiet *q, uint64_t *ret_since)
{
	struct error *err = threads_stop_asleep(&q->threads);

	q->suspect_count = 0;
	if (err)
		return err;
	err = note_suspects(q);
	if (err) {
		threads_resume(&q->threads);
		return err;
	}
	return threads_stop_others(&q->threads, ret_since);
}

static struct error *must_check stop_and_restore(void *arg)
{
	struct quiet *q = arg;
	uint64_t since, took;
	struct sites now;
	struct error *err = sites_read(q->w->t, q->head, &now);

	if (!err)
		err = stop_all(q, &since);
	if (q->threads.stood_ns > q->w->stop_ns)
		q->w->stop_ns = q->threads.stood_ns;
	if (err)
		return err;
	err = restore_code(q, &now);
	if (!err)
		err = note_suspects(q);
	q->is_restored = !err;
	took = threads_resume(&q->threads) - since;
	if (took > q->w->stop_ns)
		q->w->stop_ns = took;
	return err;
}

/* A thread that cannot be stopped now may be in there. */
static bool is_out(struct quiet *q, pid_t id, size_t *left)
{
	bool out;

	if (!error_dropped(threads_stop_one(&q->threads, id))) {
		out = !is_in_agent(q, id, left);
		threads_resume(&q->threads);
		return out;
	}
	return !thread_state(q->threads.pid, id);
}

/* Those for which there is no time come first the next time. */
static struct error *must_check look_at_suspects(void *arg)
{
	struct quiet *q = arg;
	size_t left = LOOK_BYTES;

	for (size_t n = q->suspect_count; n && left && clock_now() < q->until; n--) {
		if (q->next >= q->suspect_count)
			q->next = 0;
		if (is_out(q, q->suspects[q->next], &left))
			q->suspects[q->next] = q->suspects[--q->suspect_count];
		else
			q->next++;
	}
	return NULL;
}

static bool is_quiet(const struct quiet *q)
{
	return q->is_restored && !q->suspect_count && slots_are_free(q);
}

/* Not beyond `until`: then there is one more look, which has no time left, and decides. */
static void pause_before_look(unsigned int us, uint64_t until)
{
	uint64_t now = clock_now(), left = until > now ? (until - now) / 1000 : 0;

	usleep(us < left ? us : left + 1);
}

/* Its code is restored, unless ERROR_FAULT: its threads could not be stopped for so long. */
static struct error *must_check make_quiet(struct quiet *q)
{
	uint64_t start = clock_now(), until = start + PATIENCE_NS;
	unsigned int pause = PAUSE_US;

	q->until = until;
	for (;;) {
		struct error *err =
			run_on_tracer_thread(q->is_restored ? look_at_suspects : stop_and_restore,
					     q);
		bool borrowed = threads_are_borrowed(err, start);

		if (err && err != &error_fault && !borrowed)
			return err;
		if (is_quiet(q) || clock_now() > until)
			return err;
		if (err)
			threads_let_run(&q->threads, until);
		else
			pause_before_look(pause, until);
		error_destroy(err);
		pause = pause < MOST_PAUSE_US / 2 ? 2 * pause : MOST_PAUSE_US;
	}
}

struct error *detach_code(struct detachment *w, struct code_head *head)
{
	struct quiet q = {.w = w, .head = head, .threads = {.pid = target_pid(w->t)}};
	struct error *err = make_quiet(&q);
	pid_t pid = q.threads.pid;

	if (err == &error_fault)
		err = error_wrap(
			threads_stand(pid, q.threads.stuck ?: pid),
			"the agent remains in process %d; remove it with gospect doctor -p PID",
			pid);
	else if (!err && !is_quiet(&q))
		err = error_format(
			ERROR_FAILED,
			"a thread of process %d is still in the agent after 5 s: the code is "
			"restored, but the agent's memory remains; remove it with gospect doctor "
			"-p PID",
			pid);
	threads_release(&q.threads);
	free(q.suspects);
	fault_point("code-restored");
	return err;
}

static struct error *must_check call(struct remote *r, long number, uint64_t a, uint64_t b)
{
	int64_t result;

	return remote_call(r, number, (uint64_t[6]){a, b}, &result);
}

/* The code page goes last: it lists the other mappings. */
struct error *detach_memory(struct detachment *w, struct remote *r, const struct stale_agent *l)
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

/* The agent is unused now; the page tells the next gospect. */
static struct error *must_check clear_head(const struct detachment *w, const struct remote *r,
					   const struct stale_agent *l)
{
	struct code_head head = l->head;

	memset(head.sites, 0, sizeof(head.sites));
	memset(head.trampolines, 0, sizeof(head.trampolines));
	head.tracer = 0;
	head.slots = head.fallback_slots = head.control = 0;
	return code_memory_write(threads_code(&r->threads, w->memory), l->head.code, &head,
				 code_head_bytes(&head));
}

struct memory_step {
	struct detachment *w;
	const struct stale_agent *l;
	struct forks forks;
};

static struct error *must_check detach_memory_step(void *arg)
{
	struct memory_step *step = arg;
	struct detachment *w = step->w;
	struct remote r;
	struct error *err = remote_begin(&r, w->t, w->survey, w->memory, w->suspend_seccomp);

	if (err)
		return err;
	err = forks_reap(&r, &step->forks);
	if (!err)
		err = detach_memory(w, &r, step->l);
	if (!err && step->l->has_head && w->keep_code_page)
		err = clear_head(w, &r, step->l);
	remote_end(&r);
	return err;
}

/* There is nothing to do. */
static bool is_clean(const struct detachment *w, const struct stale_agent *l)
{
	return stale_agent_is_none(l) || (w->keep_code_page && stale_agent_is_kept_page(l));
}

struct error *detach(struct detachment *w)
{
	_cleanup_stale_agent_ struct stale_agent l = {0};
	struct memory_step step = {.w = w, .l = &l};
	struct error *err = stale_agent_find(w->t, w->originals, w->claim, &l);

	if (err || (is_clean(w, &l) && !w->forked))
		return err;
	if (w->forked || l.has_claim)
		forks_find_dead(target_pid(w->t), &step.forks);
	if (l.has_head && (l.patched || (l.head.slots && !w->never_ran)))
		err = detach_code(w, &l.head);
	if (!err)
		err = run_on_tracer_thread(detach_memory_step, &step);
	return err;
}
