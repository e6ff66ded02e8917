#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "inject/forks.h"
#include "inject/operation.h"
#include "inject/stale_agent.h"
#include "inject/threads.h"
#include "target/access.h"
#include "target/proc_status.h"

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif

/*
 * Whether the kernel lets us suspend the filters of a thread that we trace: that takes
 * CAP_SYS_ADMIN in the first user namespace, no filter of our own, and a kernel that was built for
 * it (ptrace(2)). Tried on a child, which ends by itself should we be killed meanwhile.
 */
static bool can_suspend_filters(void)
{
	pid_t child = fork();
	bool can;

	if (!child) {
		sleep(1);
		_exit(0);
	}
	if (child < 0)
		return false;
	can = !ptrace(PTRACE_SEIZE, child, NULL, (long)PTRACE_O_SUSPEND_SECCOMP);
	kill(child, SIGKILL);
	while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
		;
	return can;
}

/* Each thread has filters of its own, or none. */
static bool any_is_filtered(pid_t pid)
{
	_cleanup_closedir_ DIR *folder = task_folder_open(pid);
	pid_t id;

	while (folder && (id = task_folder_next(folder)))
		if (thread_is_filtered(id))
			return true;
	return false;
}

/* Where a filter decides about system calls, ours could get the target killed. A thread may put one
 * on all others at any time (SECCOMP_FILTER_FLAG_TSYNC), so they are suspended wherever that is
 * possible. */
static struct error *must_check check_filters(struct surgeon *s)
{
	s->w.suspend_seccomp = can_suspend_filters();
	if (s->w.suspend_seccomp || !any_is_filtered(target_pid(s->t)))
		return NULL;
	return error_format(
		ERROR_DENIED,
		"cannot trace process %d: its seccomp filter could kill it for the system calls "
		"of the agent; run gospect as root outside the container, where it can suspend "
		"the filter",
		target_pid(s->t));
}

static struct error *must_check open_memory(struct surgeon *s)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", process_living_thread(target_pid(s->t)));
	s->memory = open(path, O_RDWR | O_CLOEXEC);
	if (s->memory < 0)
		return error_errno(
			ERROR_DENIED, errno,
			"cannot write to the memory of process %d; run gospect as root or with "
			"CAP_SYS_PTRACE",
			target_pid(s->t));
	s->w = (struct detachment){.t = s->t,
				   .survey = &s->survey,
				   .originals = s->originals,
				   .memory = s->memory,
				   .keep_code_page = true};
	return NULL;
}

/* Mostly another gospect at work is seen without touching the target. */
static struct error *must_check look_for_holder(struct surgeon *s, bool *ret_cleans)
{
	_cleanup_stale_agent_ struct stale_agent l = {0};
	struct error *err = stale_agent_find(s->t, s->originals, 0, &l);

	*ret_cleans = l.holder_cleans;
	return err ? err : stale_agent_check_holder(s->t, &l);
}

/* Waits for a guard that is removing the agent of a gospect killed just now. */
static struct error *must_check check_holder(struct surgeon *s)
{
	uint64_t end = clock_now() + CLAIM_CLEANING_NS;
	struct error *err;
	bool cleans;

	while ((err = look_for_holder(s, &cleans)) && cleans && clock_now() < end) {
		error_destroy(err);
		usleep(5000);
	}
	return err;
}

/* A stopped process cannot make the mappings, and may stay stopped for hours. */
static struct error *must_check check_runs(const struct surgeon *s)
{
	pid_t pid = target_pid(s->t);

	return thread_state(pid, pid) == 'T' ? threads_stand(pid, pid) : NULL;
}

static struct claim_way way_of(const struct surgeon *s)
{
	return (struct claim_way){.t = s->t,
				  .survey = &s->survey,
				  .originals = s->originals,
				  .memory = s->memory,
				  .suspend_seccomp = s->w.suspend_seccomp,
				  .cleans = s->cleans,
				  .named = s->named};
}

bool operation_leave(struct surgeon *s)
{
	struct claim_way way = way_of(s);

	return claim_release(&way, &s->claim);
}

static struct error *must_check check_kernel(const struct surgeon *s)
{
	if (!access_in_gvisor())
		return NULL;
	return error_format(ERROR_UNSUPPORTED,
			    "process %d is in gVisor, where gospect cannot stop its threads: "
			    "trace, exact offcpu and --exact do not work there; use record, "
			    "offcpu --sampled or leaks",
			    target_pid(s->t));
}

struct error *operation_check(struct surgeon *s)
{
	struct error *err = check_kernel(s);

	if (!err)
		err = open_memory(s);
	if (!err)
		err = check_runs(s);
	if (!err)
		err = check_holder(s);
	if (!err)
		err = threads_check_untraced(target_pid(s->t));
	return err ? err : check_filters(s);
}

struct error *operation_enter(struct surgeon *s)
{
	struct claim_way way = way_of(s);
	struct error *err = claim_take(&way, &s->claim);

	s->w.claim = s->claim.address;
	return err;
}

/* A copy of the target lives: only for a moment, as its tracer is gone. */
static bool fork_lives(const struct surgeon *s)
{
	struct process_parentage p;
	pid_t id = *s->fork;

	if (id <= 0 || !process_parentage(id, &p) || p.parent != s->pid || p.exit_signal ||
	    p.state == 'Z' || p.state == 'X')
		return false;
	kill(id, SIGKILL);
	return true;
}

/* What is left: false for nothing, or what another gospect cares for. */
static bool is_something_left(struct surgeon *s)
{
	_cleanup_stale_agent_ struct stale_agent l = {0};
	struct forks forks = {.count = 0};

	if (error_dropped(stale_agent_find(s->t, s->originals, 0, &l)))
		return true;
	if (l.holder)
		return false;
	if (*s->fork)
		forks_find_dead(s->pid, &forks);
	s->w.forked = forks.count;
	return s->w.forked || fork_lives(s) ||
	       !(stale_agent_is_none(&l) || stale_agent_is_kept_page(&l));
}

bool operation_finds_clean(const struct surgeon *dead)
{
	struct surgeon s = {.pid = dead->pid,
			    .named = dead->named,
			    .t = dead->t,
			    .survey = dead->survey,
			    .originals = dead->originals,
			    .fork = dead->fork,
			    .memory = -1,
			    .cleans = true};
	struct error *err = target_check(s.t);
	bool forked;

	if (err)
		return error_dropped(err);
	if (!is_something_left(&s))
		return true;
	forked = s.w.forked;
	err = operation_check(&s);
	s.w.forked = forked;
	if (!err)
		err = operation_enter(&s);
	if (!err)
		err = detach(&s.w);
	(void)!operation_leave(&s);
	cleanup_close(&s.memory);
	error_destroy(err);
	return false;
}
