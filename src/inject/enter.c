#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/door.h"
#include "inject/guardian.h"
#include "inject/injection.h"
#include "inject/leftovers.h"
#include "inject/status.h"
#include "inject/threads.h"

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
	struct dirent *entry;
	bool filtered = false;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = door_opendir(path);
	while (dir && !filtered && (entry = readdir(dir)))
		filtered = atoi(entry->d_name) > 0 && thread_is_filtered(atoi(entry->d_name));
	if (dir)
		closedir(dir);
	return filtered;
}

/* Where a filter decides about system calls, ours could get the target killed. A thread may put one
 * on all others at any time (SECCOMP_FILTER_FLAG_TSYNC), so who can suspend them always does. */
static struct error *must_check check_filters(struct injection *in)
{
	in->w.suspend_seccomp = can_suspend_filters();
	if (in->w.suspend_seccomp || !any_is_filtered(target_pid(in->t)))
		return NULL;
	return error_format(ERROR_DENIED,
			    "process %d has a seccomp filter, which might kill it for the system "
			    "calls that trace has it make; run gospect as root outside the "
			    "container, where the filter can be suspended",
			    target_pid(in->t));
}

static struct error *must_check open_memory(struct injection *in)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", process_living_thread(target_pid(in->t)));
	in->memory = open(path, O_RDWR | O_CLOEXEC);
	if (in->memory < 0)
		return error_errno(ERROR_DENIED, errno,
				   "cannot write to process %d's memory (run as root, or give "
				   "gospect CAP_SYS_PTRACE)",
				   target_pid(in->t));
	in->w = (struct withdrawal){.t = in->t,
				    .img = in->img,
				    .lay = in->lay,
				    .memory = in->memory,
				    .keep_code_page = true};
	return NULL;
}

/* For another to take out what was left: it has to wait for a processor, too. */
#define CLEANING_NS 2000000000ull

/* Most who come while another is at work need not touch the target to see that. */
static struct error *must_check look_for_holder(struct injection *in, bool *ret_cleans)
{
	_cleanup_leftovers_ struct leftovers l = {0};
	struct error *err = leftovers_find(in->t, in->img, 0, &l);

	*ret_cleans = l.holder_cleans;
	return err ? err : leftovers_check_holder(in->t, &l);
}

/* Who takes out what a gospect has left that was killed just now is waited for. */
static struct error *must_check check_holder(struct injection *in)
{
	uint64_t end = clock_now() + CLEANING_NS;
	struct error *err;
	bool cleans;

	while ((err = look_for_holder(in, &cleans)) && cleans && clock_now() < end) {
		error_destroy(err);
		usleep(5000);
	}
	return err;
}

/* A process that is stopped cannot make what we need, and may be so for hours. */
static struct error *must_check check_runs(const struct injection *in)
{
	pid_t pid = target_pid(in->t);

	return thread_state(pid, pid) == 'T' ? threads_stand(pid, pid) : NULL;
}

static struct claim_way way_of(const struct injection *in)
{
	return (struct claim_way){in->t,     in->img, in->lay, in->memory, in->w.suspend_seccomp,
				  in->cleans};
}

static struct error *must_check take_claim(struct injection *in)
{
	struct claim_way way = way_of(in);
	struct error *err = claim_take(&way, &in->claim);

	in->w.claim = in->claim.address;
	return err;
}

void injection_unclaim(struct injection *in)
{
	struct claim_way way = way_of(in);

	claim_unmap(&way, &in->claim);
}

void injection_leave(struct injection *in)
{
	struct claim_way way = way_of(in);

	claim_release(&way, &in->claim);
}

/* Where memory runs out the kernel kills whoever has most, which is not to be the target: the agent
 * does no harm without us. */
static void offer_ourselves_to_be_killed(void)
{
	int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (file < 0)
		return;
	(void)!write(file, "1000", 4);
	close(file);
}

struct error *injection_enter(struct injection *in)
{
	struct error *err = open_memory(in);

	offer_ourselves_to_be_killed();
	if (!err)
		err = check_runs(in);
	if (!err)
		err = check_holder(in);
	if (!err)
		err = threads_check_untraced(target_pid(in->t));
	if (!err)
		err = check_filters(in);
	if (!err && in->is_guarded)
		err = guardian_start(in->t, in->img, in->lay);
	return err ? err : take_claim(in);
}
