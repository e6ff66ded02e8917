#include "inject/pause.h"

#include <dirent.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "inject/tracer_threads.h"
#include "target/proc_status.h"

/* Measured with 10, 1,000 and 10,000 threads that sleep, on a busy machine
 * (bench/measure/pauses.py): nearly all of it is for letting go of them. */
#define PAUSE_NS 300000ull
#define PER_THREAD_NS 3000ull

/* CPU time: ours to stop a thread, look at it and let go of it; the target's to stop and to sleep
 * again. */
#define OWN_CPU_NS 12000ull
#define TARGET_CPU_NS 12000ull
/* So much of a quota is left to us when a period begins: others of the group run, too. */
#define USABLE_PERCENT 80

/* For how long somebody who needs so much CPU time is throttled, when he begins with a period. */
static uint64_t throttled_ns(const struct quota *q, uint64_t need)
{
	uint64_t usable = q->runtime_ns * USABLE_PERCENT / 100;

	return q->period_ns && usable && need ? (need - 1) / usable * q->period_ns : 0;
}

static uint64_t add_quota(const struct quota *q, uint64_t need, struct pause_quota *ret)
{
	uint64_t ns = throttled_ns(q, need);

	*ret = (struct pause_quota){0};
	if (ns)
		*ret = (struct pause_quota){q->runtime_ns, q->period_ns};
	return ns;
}

void pause_compute(const struct pause_conditions *c, struct pause *ret)
{
	uint64_t own = c->is_real_time ? 0 : c->threads * OWN_CPU_NS;
	uint64_t target = c->threads * TARGET_CPU_NS + c->fork_ns;

	*ret = (struct pause){.threads = c->threads};
	ret->ns = PAUSE_NS + c->threads * PER_THREAD_NS + c->fork_ns;
	if (quota_is_same(&c->own, &c->target)) {
		ret->ns += add_quota(&c->target, own + target, &ret->target);
		return;
	}
	ret->ns += add_quota(&c->own, own, &ret->own);
	ret->ns += add_quota(&c->target, target, &ret->target);
}

static struct error *must_check look_at_own_policy(void *arg)
{
	*(bool *)arg = tracer_is_real_time();
	return NULL;
}

static size_t count_threads(pid_t pid)
{
	_cleanup_closedir_ DIR *folder = task_folder_open(pid);
	struct stat st;

	return folder && !fstat(dirfd(folder), &st) && st.st_nlink > 2 ? st.st_nlink - 2 : 0;
}

void pause_expect(pid_t pid, struct pause *ret)
{
	pause_expect_fork(pid, 0, ret);
}

void pause_expect_fork(pid_t pid, uint64_t fork_ns, struct pause *ret)
{
	struct pause_conditions c = {.threads = count_threads(pid), .fork_ns = fork_ns};

	error_destroy(run_on_tracer_thread(look_at_own_policy, &c.is_real_time));
	quota_find(0, &c.own);
	quota_find(pid, &c.target);
	pause_compute(&c, ret);
}
