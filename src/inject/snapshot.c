#include "inject/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/door.h"
#include "inject/fault.h"
#include "inject/forks.h"
#include "inject/guardian_line.h"
#include "inject/operation.h"
#include "inject/priority.h"
#include "inject/remote.h"
#include "inject/threads.h"
#include "inject/tracer_threads.h"
#include "target/memory_snapshot.h"
#include "target/proc_status.h"

/* For how long we try to stop all threads at once. */
#define STOP_NS 10000000000ull
/* A copy that is born needs a CPU to stop. */
#define BIRTH_NS 2000000000ull
/* How often we look whether the target and its copy still live. */
#define LOOK_MS 20
/* No copy lives longer, and no stop lasts longer than that, or than so many times what was
 * expected. */
#define LONGEST_FORK_NS 3600000000000ull
#define LONGEST_STOP_NS 10000000000ull
#define LONGEST_STOP_FACTOR 4

/* A thread that traces the copy, or all stopped threads, from its begin to its end. */
struct snapshot {
	struct surgeon *s;
	struct snapshot_result *result;
	struct snapshot_expectation expected;
	uint64_t max_pause_ns;
	struct tracer_thread *tracer;
	sem_t begun;
	struct error *err; /* of the begin */
	int end;           /* an eventfd: it is to end */
	struct threads threads;
	uint64_t since, until;
	uint64_t slack; /* of the thread that makes the copy */
	pid_t child;    /* 0: none, or it has been waited for */
	int memory;     /* of the child; -1 once it was handed out */
	int own;        /* the same, for us */
	struct snapshot_thread *items;
	size_t count;
};

/* ---- registers ---- */

static void add_thread(struct snapshot *n, pid_t id, const struct thread_registers *r)
{
	struct snapshot_thread *thread = &n->items[n->count++];

	*thread = (struct snapshot_thread){.id = id, .pc = r->pc, .sp = r->sp, .fp = r->frame};
	memcpy(thread->general, r->general, sizeof(thread->general));
}

/* Of all stopped threads, and of `held`. */
static struct error *must_check keep_registers(struct snapshot *n, const struct remote *held)
{
	struct thread_registers r;

	threads_read_registers(&n->threads);
	free(n->items);
	n->count = 0;
	n->items = calloc(n->threads.count + 1, sizeof(*n->items));
	if (!n->items)
		return &error_no_memory;
	for (size_t i = 0; i < n->threads.count; i++) {
		const struct stopped_thread *thread = &n->threads.items[i];

		if (thread->stopped && thread->is_read && !thread->read_errno)
			add_thread(n, thread->id, &thread->registers);
	}
	if (held) {
		r = remote_thread_registers(held);
		add_thread(n, n->threads.held, &r);
	}
	n->result->threads = n->count;
	return NULL;
}

static struct error *must_check write_registers(struct snapshot *n, int *ret)
{
	bool nested = target_is_nested(n->s->pid);
	size_t size = n->count * sizeof(*n->items);
	_cleanup_close_ int file = memfd_create("gospect-registers", MFD_CLOEXEC);

	for (size_t i = 0; i < n->count; i++)
		n->items[i].inner = nested ? target_inner_id(n->items[i].id) : n->items[i].id;
	if (file < 0 || pwrite(file, n->items, size, 0) != (ssize_t)size)
		return error_errno(ERROR_FAILED, errno, "cannot make a file in memory");
	*ret = file;
	file = -1;
	return NULL;
}

/* ---- with a fork ---- */

/* Until it has stopped: then it dies with us, and before the target when memory runs out. */
static struct error *must_check adopt(struct snapshot *n)
{
	uint64_t start = clock_now();
	bool gone = false;
	char path[64];
	int status, file;

	while (!threads_await(n->child, &status, &gone) && !gone)
		if (clock_now() - start > BIRTH_NS)
			return threads_stand(n->s->pid, n->s->pid);
	if (gone || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, n->child, NULL, (long)PTRACE_O_EXITKILL))
		return error_format(ERROR_FAILED, "the copy of process %d was killed", n->s->pid);
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", n->child);
	file = open(path, O_WRONLY | O_CLOEXEC);
	(void)!write(file, "1000", 4);
	cleanup_close(&file);
	snprintf(path, sizeof(path), "/proc/%d/mem", n->child);
	n->memory = open(path, O_RDONLY | O_CLOEXEC);
	n->own = n->memory < 0 ? -1 : fcntl(n->memory, F_DUPFD_CLOEXEC, 0);
	return n->memory < 0 ? error_errno(ERROR_DENIED, errno,
					   "cannot read the copy of process %d", n->s->pid)
			     : NULL;
}

static void kill_child(struct snapshot *n)
{
	int status = 0;

	if (!n->child)
		return;
	kill(n->child, SIGKILL);
	while (waitpid(n->child, &status, __WALL) == n->child ? WIFSTOPPED(status) : errno == EINTR)
		;
	n->child = 0;
}

/* All threads are stopped, one of them by `r`. */
static struct error *must_check fork_stopped(struct snapshot *n, struct remote *r)
{
	struct error *err = keep_registers(n, r);
	int64_t result = 0;
	bool lent;

	fault_point("stopped-to-fork");
	*n->s->fork = FORK_EXPECTED;
	/* All wait for this one: on a busy machine it must not wait for a CPU. */
	lent = !err && n->threads.may_lend && priority_lend(n->threads.held, n->slack);
	if (!err)
		err = remote_fork(r, &result);
	if (lent)
		priority_take_back(n->threads.held);
	n->child = r->child;
	*n->s->fork = n->child ?: FORK_EXPECTED;
	if (err || n->child)
		return err;
	if (result < 0)
		*n->s->fork = 0;
	/* Without a reason it is not traced, and has ended already. */
	snprintf(n->expected.no_fork, sizeof(n->expected.no_fork), "the kernel refuses it: %s",
		 result < 0 ? strerror((int)-result) : "no process was made");
	return &error_fault;
}

static struct error *must_check make_fork(struct snapshot *n)
{
	struct surgeon *s = n->s;
	struct remote r;
	struct error *err = remote_begin(&r, s->t, &s->survey, s->memory, s->w.suspend_seccomp);

	if (err)
		return err;
	n->threads.held = r.threads.items[0].id;
	n->slack = priority_slack(n->threads.held);
	err = threads_stop_all(&n->threads, &n->since);
	if (!err) {
		err = fork_stopped(n, &r);
		threads_resume(&n->threads);
		n->result->pause_ns = clock_now() - n->since;
	}
	remote_end(&r);
	fault_point("forked");
	if (!err)
		err = adopt(n);
	if (err)
		kill_child(n);
	else
		guardian_note_holding(true); /* it lives until we kill it */
	return err;
}

/* ---- without ---- */

static struct error *must_check make_stop(struct snapshot *n)
{
	struct error *err;

	n->threads.held = 0;
	err = threads_stop_all(&n->threads, &n->since);
	if (err)
		return err;
	err = keep_registers(n, NULL);
	if (err)
		threads_resume(&n->threads);
	return err;
}

/* ---- its life ---- */

static void note_early_end(struct snapshot *n, const char *why)
{
	n->result->ended_early = true;
	snprintf(n->result->why_ended, sizeof(n->result->why_ended), "%s", why);
}

static bool child_has_ended(struct snapshot *n)
{
	int status;

	if (!n->child || waitpid(n->child, &status, __WALL | WNOHANG) != n->child ||
	    WIFSTOPPED(status))
		return false;
	n->child = 0;
	return true;
}

/* It loses its memory before it has ended. */
static bool has_memory(const struct snapshot *n)
{
	uint64_t entry;
	char byte;

	return !error_dropped(target_entry(n->s->t, &entry)) &&
	       pread(n->own, &byte, 1, (off_t)entry) == 1;
}

/* Until it is to end, or cannot go on. */
static void watch(struct snapshot *n)
{
	static const char ended[] = "its copy was killed: maybe memory ran out";
	bool forked = n->result->way == SNAPSHOT_FORK;
	struct pollfd fd = {.fd = n->end, .events = POLLIN};

	while (poll(&fd, 1, LOOK_MS) <= 0) {
		if (forked && child_has_ended(n))
			note_early_end(n, ended);
		else if (error_dropped(target_check(n->s->t)))
			note_early_end(n, "it has exited");
		else if (clock_now() > n->until)
			note_early_end(n, forked ? "its copy lived for too long"
						 : "the stop took too long");
		else
			continue;
		return;
	}
	if (forked && !has_memory(n))
		note_early_end(n, ended);
}

/* In kilobytes: pages that only the copy has. The target has made new ones, or given them back. */
static uint64_t private_bytes(pid_t pid)
{
	_cleanup_fclose_ FILE *f = NULL;
	unsigned long long kb, sum = 0;
	char line[256];

	snprintf(line, sizeof(line), "/proc/%d/smaps_rollup", pid);
	f = door_fopen(line);
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Private_Clean: %llu", &kb) == 1 ||
		    sscanf(line, "Private_Dirty: %llu", &kb) == 1)
			sum += kb;
	return sum * 1024;
}

static void finish(struct snapshot *n)
{
	struct snapshot_result *result = n->result;

	if (result->way == SNAPSHOT_FORK) {
		result->copied_bytes = n->child ? private_bytes(n->child) : 0;
		kill_child(n);
		guardian_note_holding(false);
		result->lived_ns = clock_now() - n->since;
		return;
	}
	result->pause_ns = threads_resume(&n->threads) - n->since;
	result->lived_ns = result->pause_ns;
}

static struct error *keep(void *arg)
{
	struct snapshot *n = arg;
	bool good;

	n->err = n->result->way == SNAPSHOT_FORK ? make_fork(n) : make_stop(n);
	good = !n->err;
	tracer_relax();
	sem_post(&n->begun);
	if (!good)
		return NULL;
	watch(n);
	finish(n);
	return NULL;
}

/* One attempt. */
static struct error *must_check try_to_make(struct snapshot *n)
{
	struct error *err = tracer_thread_start(keep, n, &n->tracer);

	if (err)
		return err;
	while (sem_wait(&n->begun) && errno == EINTR)
		;
	if (n->err)
		error_destroy(tracer_thread_join(take_ptr(n->tracer)));
	return take_ptr(n->err);
}

/* ---- before ---- */

static struct error *must_check check_pause(const struct snapshot *n)
{
	bool forks = n->result->way == SNAPSHOT_FORK;
	uint64_t ns = forks ? n->expected.fork_ns : n->expected.stop_ns;

	if (!n->max_pause_ns || ns <= n->max_pause_ns)
		return NULL;
	if (forks)
		return error_format(
			ERROR_DENIED,
			"process %d has %llu KB of page tables, so a fork would stop it for about "
			"%.3g ms; --max-pause allows %.3g ms",
			n->s->pid, (unsigned long long)n->expected.page_table_bytes / 1024,
			ns / 1e6, n->max_pause_ns / 1e6);
	return error_format(
		ERROR_DENIED,
		"process %d would stay stopped for about %.3g ms, because it cannot be forked "
		"(%s); --max-pause allows %.3g ms",
		n->s->pid, ns / 1e6, n->expected.no_fork, n->max_pause_ns / 1e6);
}

static struct error *must_check choose_way(struct snapshot *n)
{
	uint64_t longest = n->expected.stop_ns * LONGEST_STOP_FACTOR;

	n->result->way = n->expected.no_fork[0] ? SNAPSHOT_STOP : SNAPSHOT_FORK;
	snprintf(n->result->no_fork, sizeof(n->result->no_fork), "%s", n->expected.no_fork);
	longest = longest > LONGEST_STOP_NS ? longest : LONGEST_STOP_NS;
	if (n->max_pause_ns && n->max_pause_ns < longest)
		longest = n->max_pause_ns;
	n->until = clock_now() + (n->result->way == SNAPSHOT_FORK ? LONGEST_FORK_NS : longest);
	return check_pause(n);
}

static struct error *must_check make(struct snapshot *n)
{
	uint64_t start = clock_now(), end = start + STOP_NS;
	struct error *err = choose_way(n);

	while (!err) {
		err = try_to_make(n);
		if (err != &error_fault && !threads_are_borrowed(err, start))
			return err;
		error_destroy(err);
		if (threads_must_end())
			return &error_stopped;
		if (clock_now() > end)
			return threads_stand(n->s->pid, n->threads.stuck ?: n->s->pid);
		threads_let_run(&n->threads, end);
		err = choose_way(n);
	}
	return err;
}

static void destroy(struct snapshot *n)
{
	cleanup_close(&n->end);
	cleanup_close(&n->memory);
	cleanup_close(&n->own);
	sem_destroy(&n->begun);
	threads_release(&n->threads);
	free(n->items);
	free(n);
}

static struct error *must_check create(struct surgeon *s, const struct snapshot_limits *limits,
				       struct snapshot **ret)
{
	struct snapshot *n = calloc(1, sizeof(*n));

	if (!n)
		return &error_no_memory;
	n->s = s;
	n->result = &s->answer.snapshot;
	*n->result = (struct snapshot_result){0};
	n->max_pause_ns = limits->max_pause_ns;
	n->threads.pid = s->pid;
	n->threads.suspend_seccomp = s->w.suspend_seccomp;
	n->memory = n->own = -1;
	sem_init(&n->begun, 0, 0);
	snapshot_expect(s->pid, &n->expected);
	if (limits->no_fork)
		snprintf(n->expected.no_fork, sizeof(n->expected.no_fork), "--exact=stop");
	n->end = eventfd(0, EFD_CLOEXEC);
	if (n->end < 0) {
		destroy(n);
		return error_errno(ERROR_FAILED, errno, "cannot create an eventfd");
	}
	*ret = n;
	return NULL;
}

/* ---- its end ---- */

struct reaping {
	struct surgeon *s;
	struct forks forks;
};

static struct error *must_check reap_step(void *arg)
{
	struct reaping *reaping = arg;
	struct surgeon *s = reaping->s;
	struct remote r;
	struct error *err = remote_begin(&r, s->t, &s->survey, s->memory, s->w.suspend_seccomp);

	if (err)
		return err;
	err = forks_reap(&r, &reaping->forks);
	remote_end(&r);
	return err;
}

/* The copy is dead: until the target has waited for it, it is a zombie. */
static struct error *must_check reap(struct surgeon *s)
{
	struct reaping reaping = {s, {{*s->fork}, 1}};
	struct error *err = NULL;

	if (*s->fork == FORK_EXPECTED)
		forks_find_dead(s->pid, &reaping.forks);
	if (*s->fork && !error_dropped(target_check(s->t)))
		err = run_on_tracer_thread(reap_step, &reaping);
	s->touched = err;
	if (!err)
		*s->fork = 0;
	return err;
}

struct error *snapshot_begin(struct surgeon *s, const struct snapshot_limits *limits,
			     int *ret_memory, int *ret_threads)
{
	struct snapshot *n = NULL;
	struct error *err = create(s, limits, &n);

	if (err)
		return err;
	err = make(n);
	if (err) {
		error_destroy(reap(s));
		destroy(n);
		return err;
	}
	s->snapshot = n;
	s->touched = n->result->way == SNAPSHOT_FORK;
	fault_point("snapshot-made");
	err = write_registers(n, ret_threads);
	*ret_memory = n->memory;
	n->memory = -1;
	return err;
}

struct error *snapshot_end(struct surgeon *s)
{
	struct snapshot *n = take_ptr(s->snapshot);
	const uint64_t one = 1;
	struct error *err;

	if (!n)
		return NULL;
	(void)!write(n->end, &one, sizeof(one));
	error_destroy(tracer_thread_join(n->tracer));
	fault_point("fork-killed");
	err = reap(s);
	destroy(n);
	return err;
}
