#include "inject/threads.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "inject/guardian_line.h"
#include "inject/priority.h"
#include "inject/quota.h"
#include "target/proc_status.h"

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif

/*
 * A thread needs a CPU to stop. On a busy machine it waits for one, and the stopped threads wait
 * with it. So the first tries are short; later ones get more time, at most STOP_MOST_NS. Between
 * two tries all threads run. The caller decides how often to try.
 */
#define FIRST_STOP_NS 500000ull
#define STOP_EACH_NS 20000ull
#define TRIES_PER_LIMIT 6
#define PATIENT_SHARE 10
#define STOP_MOST_NS 1000000000ull
#define CANNOT_STOP_NS 10000000ull
/* A thread on a CPU has stopped by then; another one gets a higher priority. */
#define AT_ONCE_NS 30000ull
/* One that sleeps, while all others run. */
#define ONE_STOP_NS 100000000ull
/* Sleeping threads are stopped first, while the others run. */
#define ASLEEP_STOP_NS 1000000000ull
/* After a stop in vain the target runs for so much longer than it stood. */
#define RUN_FACTOR 50
#define LEAST_RUN_US 1000
#define MOST_RUN_US 1000000
/* CPU time to let go of a sleeping thread. */
#define LET_GO_CPU_NS 3000ull
/* How often a thread that cannot be stopped is looked at. */
#define LOOK_US 1000
/* Room for threads that are born while the others are stopped. */
#define SPARE 64
/* As long as another gospect may have one of them, on a busy machine. */
#define BORROWED_NS 300000000ull
const volatile sig_atomic_t *threads_end;

bool threads_must_end(void)
{
	return threads_end && *threads_end;
}

static struct error *must_check has_tracer(pid_t pid, pid_t tracer)
{
	return error_format(
		ERROR_DENIED,
		"process %d is traced by process %d (a debugger or strace); stop that process, "
		"and try again",
		pid, tracer);
}

struct error *threads_check_untraced(pid_t pid)
{
	_cleanup_closedir_ DIR *folder = task_folder_open(pid);
	pid_t tracer = 0, id;

	if (!folder)
		return error_format(ERROR_GONE, "process %d has exited", pid);
	while (!tracer && (id = task_folder_next(folder)))
		tracer = thread_tracer(id);
	return tracer ? has_tracer(pid, tracer) : NULL;
}

static struct error *must_check cannot_seize(pid_t pid, pid_t id, int err)
{
	pid_t tracer = thread_tracer(id);

	/* A thread of gospect has asked it to stop before, and it could not yet. */
	if (tracer && !tgkill(getpid(), tracer, 0))
		return &error_fault;
	if (err == EPERM && tracer)
		return has_tracer(pid, tracer);
	return error_errno(
		err == EPERM ? ERROR_DENIED : ERROR_FAILED, err,
		"cannot stop thread %d of process %d with ptrace; run gospect as root or with "
		"CAP_SYS_PTRACE; in a container or service, have its seccomp filter allow ptrace",
		id, pid);
}

static void forget(struct threads *t)
{
	t->count = 0;
	map_clear(&t->known);
}

/* By its state, which is 0 where there is no such thread any more. */
static bool has_ended(char state)
{
	return state == 'Z' || state == 'X' || !state;
}

/* It goes on until it is interrupted, or takes a signal. A thread that is gone by now is no error.
 */
static struct error *must_check seize(const struct threads *t, struct stopped_thread *thread)
{
	long options = PTRACE_O_TRACESYSGOOD | (t->suspend_seccomp ? PTRACE_O_SUSPEND_SECCOMP : 0);
	int err;

	if (thread->seized || thread->gone || thread->id == t->held)
		return NULL;
	thread->seized = !ptrace(PTRACE_SEIZE, thread->id, NULL, options);
	if (thread->seized)
		return NULL;
	err = errno;
	/* One that was ending is EPERM, too, whether it is still there or not. */
	thread->gone =
		err == ESRCH || (err == EPERM && has_ended(thread_state(t->pid, thread->id)));
	return thread->gone ? NULL : cannot_seize(t->pid, thread->id, err);
}

/* Those that were added before and are not traced yet: they were awake. */
static struct error *must_check seize_awake(struct threads *t)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < t->count; i++)
		err = seize(t, &t->items[i]);
	return err;
}

/* A thread that is known is no error. */
static struct error *must_check add(struct threads *t, pid_t id)
{
	size_t known = t->known.count;
	char state;

	if (!map_at(&t->known, id) || !array_reserve(&t->items, &t->capacity, t->count + 1))
		return &error_no_memory;
	if (t->known.count == known)
		return NULL;
	state = thread_state(t->pid, id);
	if (state == 'D')
		t->stuck = id;
	t->items[t->count++] = (struct stopped_thread){
		.id = id,
		.asleep = state == 'S',
		.slack = t->may_lend && state != 'S' ? priority_slack(id) : 0,
		.gone = has_ended(state),
	};
	return NULL;
}

static uint64_t folder_links(const struct threads *t)
{
	struct stat st;

	return fstat(dirfd(t->folder), &st) ? 0 : st.st_nlink;
}

/* The link count of the directory of threads is their number plus two. A counted thread stays
 * counted until its end is reported; so when the numbers agree, there is no other. */
static bool has_all(const struct threads *t)
{
	size_t alive = 0;

	for (size_t i = 0; i < t->count; i++)
		alive += !t->items[i].gone;
	return folder_links(t) == alive + 2;
}

/* Those that are not known yet: behind the others. */
static struct error *must_check add_new(struct threads *t)
{
	struct error *err = NULL;
	pid_t id;

	if (has_all(t))
		return NULL;
	rewinddir(t->folder);
	while (!err && (id = task_folder_next(t->folder)))
		err = add(t, id);
	return err;
}

static struct error *must_check seize_own_asleep(void *arg, unsigned int part)
{
	struct error *err = NULL;
	struct threads *t = arg;

	for (size_t i = t->parts[part].from; !err && i < t->parts[part].to; i++)
		if (t->items[i].asleep && t->items[i].part == part)
			err = seize(t, &t->items[i]);
	return err;
}

static size_t count_asleep(const struct threads *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->count; i++)
		n += t->items[i].asleep;
	return n;
}

/* If many threads sleep, distributes them evenly among helpers. The caller keeps one, through which
 * it may write to code. */
static void assign_parts(struct threads *t)
{
	size_t asleep = count_asleep(t), n = 0, kept = 0;
	size_t helpers = (asleep + THREADS_EACH - 1) / THREADS_EACH, each;

	t->parts[0] = (struct threads_part){0, t->count};
	if (asleep < THREADS_MANY)
		return;
	t->helpers = helpers_start(helpers < THREADS_PARTS ? helpers : THREADS_PARTS);
	helpers = helpers_count(t->helpers);
	if (!helpers)
		return;
	each = (asleep + helpers - 1) / helpers;
	for (size_t i = 0; i < t->count; i++) {
		struct stopped_thread *thread = &t->items[i];

		if (!thread->asleep || !kept++)
			continue;
		thread->part = 1 + n / each;
		if (n++ % each == 0)
			t->parts[thread->part].from = i;
		t->parts[thread->part].to = i + 1;
	}
	while (helpers > (asleep + each - 1) / each)
		t->parts[helpers--] = (struct threads_part){0, 0};
}

static struct error *must_check seize_asleep(struct threads *t)
{
	assign_parts(t);
	return helpers_share(t->helpers, seize_own_asleep, t);
}

static void take_back(struct stopped_thread *thread)
{
	if (thread->lent)
		priority_take_back(thread->id);
	thread->lent = false;
}

static void note(struct stopped_thread *thread, int status)
{
	take_back(thread);
	if (!WIFSTOPPED(status)) {
		thread->gone = true;
		return;
	}
	thread->stopped = true;
	/* An event's stop has its number above the signal; else the thread is taking a signal. */
	thread->signal = status >> 16 ? 0 : WSTOPSIG(status);
}

/* It sleeps so that no signal wakes it up: most likely until a child of vfork has called exec. */
static bool cannot_stop(const struct threads *t, pid_t id)
{
	return thread_state(t->pid, id) == 'D';
}

static bool time_is_over(struct threads *t, pid_t id, uint64_t since, uint64_t limit)
{
	uint64_t passed = clock_now() - since;

	if (passed > CANNOT_STOP_NS && cannot_stop(t, id))
		t->stuck = id;
	return t->stuck || passed > limit;
}

/* `options`: WNOHANG, or 0. */
static bool look_for_stop(pid_t id, int options, int *ret_status, bool *ret_gone)
{
	siginfo_t info = {0};

	*ret_gone = false;
	if (waitid(P_PID, id, &info,
		   WEXITED | WSTOPPED | WNOWAIT | __WALL | __WNOTHREAD | options)) {
		*ret_gone = errno != EINTR;
		return false;
	}
	if (!info.si_pid)
		return false;
	if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
		*ret_gone = waitpid(id, ret_status, WNOHANG | __WALL | __WNOTHREAD) != id;
		return !*ret_gone;
	}
	*ret_status = info.si_status << 8 | 0x7f;
	return true;
}

bool threads_await(pid_t id, int *ret_status, bool *ret_gone)
{
	return look_for_stop(id, 0, ret_status, ret_gone);
}

/* false when the time is over. */
static bool wait_for_stop(struct threads *t, struct stopped_thread *thread, uint64_t since,
			  uint64_t limit)
{
	int status;

	while (!threads_await(thread->id, &status, &thread->gone)) {
		if (thread->gone)
			return true;
		if (time_is_over(t, thread->id, since, limit))
			return false;
	}
	note(thread, status);
	return true;
}

static bool is_awaited(const struct stopped_thread *thread)
{
	return thread->interrupted && !thread->stopped && !thread->gone;
}

/* How many have not stopped yet. */
static size_t note_stops(struct threads *t)
{
	size_t n = 0;
	int status;

	for (size_t i = 0; i < t->count; i++) {
		struct stopped_thread *thread = &t->items[i];

		if (!is_awaited(thread))
			continue;
		if (look_for_stop(thread->id, WNOHANG, &status, &thread->gone))
			note(thread, status);
		n += !thread->stopped && !thread->gone;
	}
	return n;
}

static void raise_priorities(struct threads *t)
{
	uint64_t start = clock_now();
	size_t left = note_stops(t);

	if (!t->may_lend)
		return;
	while (left && clock_now() - start < AT_ONCE_NS)
		left = note_stops(t);
	for (size_t i = 0; left && i < t->count; i++) {
		struct stopped_thread *thread = &t->items[i];

		if (is_awaited(thread) && !thread->lent)
			thread->lent = priority_lend(thread->id, thread->slack);
	}
}

/* Waits for the requested stops. The last one first: when it has stopped most others have, and each
 * that we sleep for wakes us, which takes a CPU from those that are still to stop. */
static bool wait_for_stops(struct threads *t, unsigned int part, uint64_t since, uint64_t limit)
{
	size_t from = part ? t->parts[part].from : 0, to = part ? t->parts[part].to : t->count;

	for (size_t i = to; i-- > from;) {
		struct stopped_thread *thread = &t->items[i];

		if (thread->part == part && is_awaited(thread) &&
		    !wait_for_stop(t, thread, since, limit))
			return false;
	}
	return true;
}

static void interrupt(struct stopped_thread *thread)
{
	thread->interrupted = true;
	ptrace(PTRACE_INTERRUPT, thread->id, NULL, NULL);
}

/* How many that were. */
static size_t interrupt_others(struct threads *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->count; i++) {
		struct stopped_thread *thread = &t->items[i];

		if (thread->interrupted || !thread->seized)
			continue;
		interrupt(thread);
		n++;
	}
	return n;
}

/* A sleeping thread needs no CPU. */
static struct error *must_check stop_own_asleep(void *arg, unsigned int part)
{
	struct threads *t = arg;

	for (size_t i = t->parts[part].from; i < t->parts[part].to; i++) {
		struct stopped_thread *thread = &t->items[i];

		if (thread->part == part && thread->asleep && thread->seized)
			interrupt(thread);
	}
	return wait_for_stops(t, part, clock_now(), ASLEEP_STOP_NS) ? NULL : &error_fault;
}

/* For so many. On a machine that has far too much to do it grows with the time that was spent in
 * vain: the target is slowed by a tenth then. */
static uint64_t stop_limit(struct threads *t, size_t count)
{
	unsigned int doubled = t->tries / TRIES_PER_LIMIT;
	uint64_t limit = (FIRST_STOP_NS + count * STOP_EACH_NS) << (doubled < 16 ? doubled : 16);
	uint64_t now = clock_now(), patient;

	t->first_try_ns = t->first_try_ns ? t->first_try_ns : now;
	patient = (now - t->first_try_ns) / PATIENT_SHARE;
	limit = limit > patient ? limit : patient;
	return limit < STOP_MOST_NS ? limit : STOP_MOST_NS;
}

static struct error *must_check stop_others(struct threads *t, uint64_t since)
{
	struct error *err = NULL;
	size_t known = 0, interrupted = 0;

	while (!err && known < t->count) {
		known = t->count;
		interrupted += interrupt_others(t);
		raise_priorities(t);
		err = wait_for_stops(t, 0, since, stop_limit(t, interrupted)) ? add_new(t)
									      : &error_fault;
		if (!err && known < t->count)
			err = seize_awake(t);
	}
	return err;
}

struct error *threads_stop_one(struct threads *t, pid_t id)
{
	struct error *err;

	forget(t);
	guardian_note_holding(true);
	err = add(t, id);
	if (!err)
		err = seize_awake(t);
	if (err) {
		threads_resume(t);
		return err;
	}
	interrupt_others(t);
	if (!t->count || !wait_for_stops(t, 0, clock_now(), ONE_STOP_NS) || !t->items[0].stopped) {
		threads_resume(t);
		return &error_fault;
	}
	return NULL;
}

/* Reserves room for all of them, so that none is allocated while some are stopped. Inserting makes
 * that of the map. */
static struct error *must_check make_room(struct threads *t)
{
	size_t n = folder_links(t) + SPARE;

	if (!array_reserve(&t->items, &t->capacity, n))
		return &error_no_memory;
	for (size_t i = 0; t->known.capacity < 2 * n; i++)
		if (!map_at(&t->known, (uint64_t)INT32_MAX + 1 + i))
			return &error_no_memory;
	forget(t);
	return NULL;
}

static struct error *must_check open_folder(struct threads *t)
{
	if (t->folder)
		return NULL;
	t->folder = task_folder_open(t->pid);
	return t->folder ? NULL : error_format(ERROR_GONE, "process %d has exited", t->pid);
}

/* `since`: when the other threads were asked to stop. */
static struct error *must_check stopped_in_vain(struct threads *t, uint64_t since,
						struct error *err)
{
	t->stood_ns = threads_resume(t) - since;
	t->held_ns = clock_now() - t->interrupt_ns;
	t->tries++;
	return err;
}

static void find_quotas(struct threads *t)
{
	quota_find(0, &t->own);
	quota_find(t->pid, &t->target);
	if (tracer_is_real_time())
		t->own.period_ns = 0;
}

/*
 * A stop begins when quotas are whole: ours, for when we are throttled the target stands for the
 * rest of the period; and the target's, for its threads need CPU time to stop. The target's is the
 * last that is waited for: a busy program may use it up soon.
 */
static struct error *must_check await_quotas(struct threads *t)
{
	if (t->own.period_ns)
		quota_await_whole(&t->own);
	if (t->target.period_ns && !quota_is_same(&t->own, &t->target))
		quota_await_period(&t->target);
	t->fresh_cpu_ns = clock_read(CLOCK_PROCESS_CPUTIME_ID);
	return t->own.period_ns || t->target.period_ns ? add_new(t) : NULL;
}

/* What we have used until now may leave too little to let go of them. */
static void await_own_quota(struct threads *t)
{
	uint64_t used = clock_read(CLOCK_PROCESS_CPUTIME_ID) - t->fresh_cpu_ns;

	if (t->own.period_ns && used + t->count * LET_GO_CPU_NS > t->own.runtime_ns)
		quota_await_period(&t->own);
}

/* Does all slow work before the first of them stops. */
static struct error *must_check find_all(struct threads *t)
{
	bool first = !t->folder;
	struct error *err = open_folder(t);

	if (!err)
		err = make_room(t);
	t->may_lend = priority_can_be_lent(guardian_pid());
	if (!err)
		err = add_new(t);
	if (first)
		find_quotas(t);
	if (!err)
		err = await_quotas(t);
	return err ? err : seize_asleep(t);
}

struct error *threads_stop_asleep(struct threads *t)
{
	struct error *err;

	t->stuck = 0;
	t->stood_ns = t->held_ns = 0;
	err = find_all(t);
	guardian_note_holding(true);
	t->interrupt_ns = clock_now();
	if (!err)
		err = t->stuck ? &error_fault : helpers_share(t->helpers, stop_own_asleep, t);
	return err ? stopped_in_vain(t, clock_now(), err) : NULL;
}

struct error *threads_stop_others(struct threads *t, uint64_t *ret_since)
{
	struct error *err;

	await_own_quota(t);
	err = seize_awake(t);
	*ret_since = clock_now();
	if (!err)
		err = stop_others(t, *ret_since);
	return err ? stopped_in_vain(t, *ret_since, err) : NULL;
}

struct error *threads_stop_all(struct threads *t, uint64_t *ret_since)
{
	struct error *err = threads_stop_asleep(t);

	return err ? err : threads_stop_others(t, ret_since);
}

bool threads_are_borrowed(const struct error *err, uint64_t since)
{
	return err && err->code == ERROR_DENIED && clock_now() - since < BORROWED_NS;
}

void threads_let_run(const struct threads *t, uint64_t until)
{
	uint64_t us = t->held_ns * RUN_FACTOR / 1000;

	us = us < MOST_RUN_US ? us : MOST_RUN_US;
	usleep(us > LEAST_RUN_US ? us : LEAST_RUN_US);
	while (t->stuck && cannot_stop(t, t->stuck) && clock_now() < until && !threads_must_end())
		usleep(LOOK_US);
}

struct error *threads_stand(pid_t pid, pid_t id)
{
	char state = thread_state(pid, id);

	if (state == 'T')
		return error_format(ERROR_FAILED,
				    "process %d is stopped (SIGSTOP); resume it with kill -CONT %d",
				    pid, pid);
	if (state == 'D')
		return error_format(
			ERROR_FAILED,
			"thread %d of process %d does not stop: it is frozen (docker pause) or in "
			"uninterruptible sleep (state D: disk, vfork); try again when it runs",
			id, pid);
	return error_format(
		ERROR_FAILED,
		"process %d does not resume: it is frozen (docker pause) or gets no CPU time; try "
		"again when it runs",
		pid);
}

struct code_memory threads_code(const struct threads *t, int file)
{
	struct code_memory code = {t->pid, file, 0};

	/* A thread of a helper can only be used by that. */
	for (size_t i = 0; !code.stopped && i < t->count; i++)
		if (t->items[i].stopped && !t->items[i].part)
			code.stopped = t->items[i].id;
	return code;
}

static void read_registers(struct stopped_thread *thread)
{
	thread->is_read = true;
	thread->read_errno = thread_registers_read(thread->id, &thread->registers) ? 0 : errno;
}

static bool is_unread(const struct stopped_thread *thread)
{
	return thread->stopped && !thread->is_read;
}

static struct error *must_check read_own_registers(void *arg, unsigned int part)
{
	struct threads *t = arg;
	size_t from = part ? t->parts[part].from : 0, to = part ? t->parts[part].to : t->count;

	for (size_t i = from; i < to; i++)
		if (t->items[i].part == part && is_unread(&t->items[i]))
			read_registers(&t->items[i]);
	return NULL;
}

void threads_read_registers(struct threads *t)
{
	bool by_helpers = false;

	for (size_t i = 0; i < t->count; i++)
		by_helpers |= t->items[i].part && is_unread(&t->items[i]);
	error_destroy(by_helpers ? helpers_share(t->helpers, read_own_registers, t)
				 : read_own_registers(t, 0));
}

static void let_go(struct stopped_thread *thread)
{
	take_back(thread);
	if (thread->stopped)
		ptrace(PTRACE_DETACH, thread->id, NULL, (long)thread->signal);
}

/* Detaches the threads that have a signal to take. */
static struct error *must_check pass_signals(void *arg, unsigned int part)
{
	struct threads *t = arg;

	for (size_t i = part ? t->parts[part].from : t->count; i < t->parts[part].to; i++)
		if (t->items[i].part == part && t->items[i].signal)
			let_go(&t->items[i]);
	return NULL;
}

static void resume_own(struct threads *t, bool asleep)
{
	for (size_t i = 0; i < t->count; i++)
		if (!t->items[i].part && t->items[i].asleep == asleep)
			let_go(&t->items[i]);
}

/* Resumes the threads of helpers: the kernel detaches them when their helper ends. */
static void resume_helped(struct threads *t)
{
	bool signals = false;

	for (size_t i = 0; i < t->count; i++)
		if (t->items[i].part) {
			take_back(&t->items[i]);
			signals |= t->items[i].signal;
		}
	if (signals)
		error_destroy(helpers_share(t->helpers, pass_signals, t));
	helpers_end(t->helpers);
	t->helpers = NULL;
}

/* Threads that have not stopped cannot be resumed; the kernel detaches them when gospect's threads
 * end. */
uint64_t threads_resume(struct threads *t)
{
	uint64_t at;

	resume_own(t, false);
	resume_own(t, true);
	resume_helped(t);
	at = clock_now();
	if (t->may_lend)
		priority_settle();
	forget(t);
	guardian_note_holding(false);
	return at;
}

void threads_release(struct threads *t)
{
	if (t->folder)
		closedir(t->folder);
	free(t->items);
	map_release(&t->known);
	*t = (struct threads){0};
}
