#include "inject/remote.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "inject/fault.h"
#include "target/proc_status.h"

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif

/* Where our frame lies on the signal stack: near its end, which a signal handler does not reach. */
#define FRAME_OFFSET 3072
#define TEXT_OFFSET 2048 /* below the frame */
/* For how long we look for a thread that sleeps. */
#define SEARCH_NS 2000000000ull
#define SEARCH_PAUSE_US 500
/* gospect does not wait longer for a system call, or for its undoing. */
#define CALL_NS 2000000000ull
#define UNDO_NS 500000000ull

/* Limit of the target's list, which may be a circle. */
#define MAX_MS 100000

/*
 * A search for a thread, until a time. The target's list of Ms is read once for all threads, as far
 * as needed: it shows which M runs on which thread, by the target's number of the thread.
 */
struct search {
	struct remote *r;
	struct target *t;
	const struct runtime_words *words;
	uint64_t until;
	struct map ms;
	uint64_t next; /* the next M of the list; 0: the end */
	size_t read;
};

static bool is_over(const struct search *s)
{
	return threads_must_end() || clock_now() > s->until;
}

static struct error *must_check read_next_m(struct search *s)
{
	uint64_t m = s->next, procid, *at;
	struct error *err = target_read_u64(s->t, m + s->words->m_procid, &procid);

	s->next = 0;
	if (!err)
		err = target_read_u64(s->t, m + s->words->m_alllink, &s->next);
	if (err)
		return err;
	s->read++;
	at = map_at(&s->ms, procid);
	if (!at)
		return &error_no_memory;
	if (!*at)
		*at = m;
	return NULL;
}

/* Its thread is stopped: an M that was on it when the list was read, and is not now, has ended. */
static struct error *must_check find_m(struct search *s, pid_t inner, uint64_t *ret)
{
	const uint64_t *m = map_find(&s->ms, inner);
	struct error *err = NULL;
	uint64_t procid;

	while (!err && !m && s->next && s->read < MAX_MS && !is_over(s)) {
		err = read_next_m(s);
		m = map_find(&s->ms, inner);
	}
	if (!m)
		return err ? err : &error_fault;
	error_destroy(err);
	*ret = *m;
	err = target_read_u64(s->t, *m + s->words->m_procid, &procid);
	return err || procid == (uint64_t)inner ? err : &error_fault;
}

/* The signal stack of the M that runs on this thread; `inner` is the target's number of it. */
static struct error *must_check signal_stack(struct search *s, pid_t inner, uint64_t *low,
					     uint64_t *high)
{
	const struct runtime_words *words = s->words;
	uint64_t m, g;
	struct error *err = find_m(s, inner, &m);

	if (!err)
		err = target_read_u64(s->t, m + words->m_gsignal, &g);
	if (!err && !g)
		err = &error_fault;
	if (!err)
		err = target_read_u64(s->t, g + words->g_stack_lo, low);
	if (!err)
		err = target_read_u64(s->t, g + words->g_stack_hi, high);
	if (!err && *high - *low < 8192)
		err = &error_fault;
	return err;
}

/* Whether it waits in a system call that can be interrupted without an effect. One that has a
 * timeout and was interrupted before, by us, is continued by restart_syscall(2). */
static bool is_wait(long number)
{
	return number == SYS_futex || number == SYS_nanosleep || number == SYS_clock_nanosleep ||
	       number == SYS_restart_syscall;
}

static bool sleeps(pid_t pid, pid_t id)
{
	return is_wait(thread_syscall(pid, id));
}

static struct error *must_check write_memory(struct remote *r, uint64_t address, const void *bytes,
					     size_t n)
{
	if (pwrite(r->memory, bytes, n, address) != (ssize_t)n)
		return error_errno(ERROR_DENIED, errno, "cannot write to the memory of process %d",
				   r->pid);
	return NULL;
}

static struct error *must_check write_frame(struct remote *r, uint64_t low, uint64_t high)
{
	_cleanup_free_ uint8_t *bytes = malloc(REMOTE_FRAME_MOST);

	if (!bytes)
		return &error_no_memory;
	r->place.stack_low = low;
	r->place.stack_high = high;
	r->place.frame = (low + FRAME_OFFSET + 15) & ~15ull;
	r->text = r->place.frame - TEXT_OFFSET;
	return write_memory(r, r->place.frame, bytes,
			    remote_registers_frame(r->saved, &r->place, bytes));
}

/* Takes the stopped thread if it sleeps where it can be used and may make the system calls. */
static struct error *must_check prepare(struct search *s, const struct target_thread *thread,
					bool sleeps)
{
	struct remote *r = s->r;
	uint64_t low, high, sp;
	struct error *err;

	if (!r->threads.suspend_seccomp && thread_is_filtered(thread->id))
		return &error_fault;
	if (r->threads.items[0].signal || !remote_registers_save(thread->id, r->memory, r->saved))
		return &error_fault;
	if (!sleeps && !is_wait(remote_registers_next_call(r->saved, r->memory)))
		return &error_fault;
	err = signal_stack(s, thread->inner, &low, &high);
	sp = remote_registers_sp(r->saved);
	if (!err && sp >= low && sp <= high)
		err = &error_fault;
	return err ? err : write_frame(r, low, high);
}

/* ERROR_FAULT: this one does not do. Of a thread that a signal has stopped, some kernels do not say
 * which system call it will go on with: its registers do. */
static struct error *must_check try_thread(struct search *s, const struct target_thread *thread)
{
	struct remote *r = s->r;
	bool asleep = sleeps(r->pid, thread->id);
	char state = thread_state(r->pid, thread->id);
	struct error *err;

	if (state == 'D' || (!asleep && state != 'T'))
		return &error_fault;
	err = threads_stop_one(&r->threads, thread->id);
	if (err)
		return err;
	err = prepare(s, thread, asleep);
	if (err)
		threads_resume(&r->threads);
	return err;
}

static struct error *must_check begin_list(struct search *s)
{
	map_clear(&s->ms);
	s->read = 0;
	return target_read_u64(s->t, s->words->allm, &s->next);
}

static struct error *must_check try_threads(struct search *s)
{
	_cleanup_free_ struct target_thread *threads = NULL;
	size_t count;
	struct error *err = begin_list(s);

	if (!err)
		err = target_threads(s->t, &threads, &count);
	if (err)
		return err;
	err = &error_fault;
	/* A debugger may hold one of them; the others will do. */
	for (size_t i = 0;
	     i < count && err && (err == &error_fault || err->code == ERROR_DENIED) && !is_over(s);
	     i++) {
		error_destroy(err);
		err = try_thread(s, &threads[i]);
	}
	return err;
}

static struct error *must_check search(struct search *s)
{
	struct error *err;

	while ((err = try_threads(s)) == &error_fault) {
		if (threads_must_end())
			return &error_stopped;
		if (is_over(s))
			return threads_stand(s->r->pid, s->r->pid);
		usleep(SEARCH_PAUSE_US);
	}
	return err;
}

struct error *remote_begin(struct remote *r, struct target *t, const struct survey *survey,
			   int memory, bool suspend_seccomp)
{
	struct search s = {.r = r,
			   .t = t,
			   .words = &survey->words,
			   .until = clock_now() + SEARCH_NS};
	struct error *err;

	*r = (struct remote){.pid = target_pid(t),
			     .memory = memory,
			     .place = {.syscall = survey->syscall, .restore = survey->restore}};
	r->threads.pid = r->pid;
	r->threads.suspend_seccomp = suspend_seccomp;
	r->saved = remote_registers_create();
	if (!r->saved)
		return &error_no_memory;
	err = search(&s);
	map_release(&s.ms);
	if (err)
		remote_end(r);
	return err;
}

/* Its stop is awaited for so long. ERROR_FAULT: it is still running. */
static struct error *must_check await_stop(struct remote *r, uint64_t ns, int *ret_status)
{
	struct stopped_thread *thread = &r->threads.items[0];
	uint64_t start = clock_now();
	bool gone;

	thread->stopped = false;
	while (!threads_await(thread->id, ret_status, &gone) && !gone)
		if (clock_now() - start > ns)
			return &error_fault;
	thread->stopped = !gone && WIFSTOPPED(*ret_status);
	thread->gone = !thread->stopped;
	return thread->stopped ? NULL : error_format(ERROR_GONE, "process %d has exited", r->pid);
}

/* It has not come to its system call. Where it can be stopped anew, it gets its registers back;
 * else the signal frame has them for it, whenever it runs again. */
static struct error *must_check does_not_run(struct remote *r)
{
	struct error *err;
	int status;

	ptrace(PTRACE_INTERRUPT, r->threads.items[0].id, NULL, NULL);
	err = await_stop(r, UNDO_NS, &status);
	if (err && err != &error_fault)
		return err;
	return threads_stand(r->pid, r->pid);
}

static void note_child(struct remote *r)
{
	unsigned long child = 0;

	if (!ptrace(PTRACE_GETEVENTMSG, r->threads.items[0].id, NULL, &child))
		r->child = (pid_t)child;
	fault_point("fork-born");
}

/* `signal`: that it was about to take; then the one that it is about to take now. */
static struct error *must_check run_to_stop(struct remote *r, int *signal, bool *ret_syscall)
{
	pid_t id = r->threads.items[0].id;
	struct error *err;
	int status;

	if (ptrace(PTRACE_SYSCALL, id, NULL, (long)*signal))
		return error_format(ERROR_GONE, "process %d has exited", r->pid);
	err = await_stop(r, CALL_NS, &status);
	if (err)
		return err == &error_fault ? does_not_run(r) : err;
	if (status >> 16 == PTRACE_EVENT_CLONE)
		note_child(r);
	*ret_syscall = WSTOPSIG(status) == (SIGTRAP | 0x80);
	*signal = *ret_syscall || status >> 16 ? 0 : WSTOPSIG(status);
	return NULL;
}

/* Once into the system call and once out of it. In between a SIGSTOP may come, which alone cannot
 * be blocked: it stops the process, but this thread goes on for us. */
static struct error *must_check run_syscall(struct remote *r)
{
	int signal = 0;

	for (int stops = 0, tries = 0; stops < 2; tries++) {
		bool syscall = false;
		struct error *err = run_to_stop(r, &signal, &syscall);

		if (err)
			return err;
		stops += syscall;
		if (tries > 100)
			return error_format(
				ERROR_FAILED,
				"process %d is stopped by a signal; resume it with kill -CONT and "
				"try again",
				r->pid);
	}
	return NULL;
}

struct error *remote_call(struct remote *r, long number, const uint64_t a[6], int64_t *ret)
{
	pid_t id = r->threads.items[0].id;
	struct error *err;

	if (!remote_registers_call(id, r->saved, &r->place, number, a))
		return error_format(ERROR_GONE, "process %d has exited", r->pid);
	fault_point("remote-registers-set");
	err = run_syscall(r);
	if (err)
		return err;
	fault_point("remote-call-done");
	if (!remote_registers_result(id, ret))
		return error_format(ERROR_GONE, "process %d has exited", r->pid);
	return NULL;
}

/* The child comes here behind its system call, if it ever runs: it ends, with all signals blocked.
 */
static struct error *must_check write_end_frame(struct remote *r)
{
	_cleanup_free_ uint8_t *bytes = malloc(REMOTE_FRAME_MOST);

	if (!bytes)
		return &error_no_memory;
	return write_memory(r, r->text, bytes,
			    remote_registers_end_frame(r->saved, &r->place, bytes));
}

static long options_of(const struct remote *r, long more)
{
	return PTRACE_O_TRACESYSGOOD | more |
	       (r->threads.suspend_seccomp ? PTRACE_O_SUSPEND_SECCOMP : 0);
}

struct error *remote_fork(struct remote *r, int64_t *ret)
{
	pid_t id = r->threads.items[0].id;
	struct error *err = write_end_frame(r);

	r->child = 0;
	if (err)
		return err;
	if (ptrace(PTRACE_SETOPTIONS, id, NULL, options_of(r, PTRACE_O_TRACECLONE)))
		return error_format(ERROR_GONE, "process %d has exited", r->pid);
	err = remote_call(r, SYS_clone, (uint64_t[6]){CLONE_FILES, r->text}, ret);
	ptrace(PTRACE_SETOPTIONS, id, NULL, options_of(r, 0));
	return err;
}

struct thread_registers remote_thread_registers(const struct remote *r)
{
	return remote_registers_given(r->saved);
}

struct error *remote_text(struct remote *r, const char *text, uint64_t *ret)
{
	*ret = r->text;
	return write_memory(r, r->text, text, strnlen(text, REMOTE_TEXT_BYTES - 1) + 1);
}

void remote_end(struct remote *r)
{
	if (r->threads.count && r->threads.items[0].stopped)
		remote_registers_restore(r->threads.items[0].id, r->saved);
	threads_resume(&r->threads);
	threads_release(&r->threads);
	free(take_ptr(r->saved));
}
