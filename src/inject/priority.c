#include "inject/priority.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/door.h"
#include "inject/fault.h"
#include "target/proc_status.h"

#define MOST_LENT 64
#define POLICY_EXT 7 /* of a scheduler that was loaded into the kernel */

enum { LENT_PRIORITY = 1, GUARDIANS_PRIORITY = 2 };

/* As sched_setattr(2) has it; not every C library does. */
struct attributes {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime; /* of a fair policy: the slice */
	uint64_t deadline, period;
};

enum { RESET_ON_FORK = 1 };

struct lent {
	pid_t id; /* 0: free. Written last */
	struct attributes had;
	uint64_t slack; /* ns; 0: unknown */
};

static struct {
	pid_t target;
	struct lent items[MOST_LENT];
} * ledger;

static bool get_attributes(pid_t id, struct attributes *ret)
{
	memset(ret, 0, sizeof(*ret));
	return !syscall(SYS_sched_getattr, id, ret, sizeof(*ret), 0);
}

static bool set_attributes(pid_t id, const struct attributes *attributes)
{
	return !syscall(SYS_sched_setattr, id, attributes, 0);
}

static const struct attributes lending = {.size = sizeof(lending),
					  .policy = SCHED_FIFO,
					  .flags = RESET_ON_FORK,
					  .priority = LENT_PRIORITY};

static bool is_lent(const struct attributes *a)
{
	return a->policy == lending.policy && a->priority == lending.priority &&
	       a->flags & RESET_ON_FORK;
}

static bool is_fair(const struct attributes *a)
{
	return a->policy == SCHED_OTHER || a->policy == SCHED_BATCH || a->policy == SCHED_IDLE ||
	       a->policy == POLICY_EXT;
}

/* The kernel reports a slice for every thread, also for one that never set it; setting it would
 * make it fixed. */
static void leave_usual_slice(struct attributes *a)
{
	struct attributes own;

	if (get_attributes(getpid(), &own) && is_fair(&own) && own.runtime == a->runtime)
		a->runtime = 0;
}

void priority_prepare(pid_t target)
{
	if (!ledger)
		ledger = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ledger == MAP_FAILED)
		ledger = NULL;
	if (ledger)
		ledger->target = target;
}

/* A process with a limit of real-time CPU would get a signal that it did not cause. */
static bool has_time_limit(pid_t pid)
{
	struct rlimit limit;

	return prlimit(pid, RLIMIT_RTTIME, NULL, &limit) || limit.rlim_cur != RLIM_INFINITY;
}

bool priority_can_be_lent(pid_t guardian)
{
	char state = guardian ? thread_state(guardian, guardian) : 0;

	return ledger && state && state != 'Z' && state != 'X' && !has_time_limit(ledger->target);
}

uint64_t priority_slack(pid_t id)
{
	_cleanup_fclose_ FILE *f = NULL;
	unsigned long long slack = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/timerslack_ns", id);
	f = door_fopen(path);
	if (f && fscanf(f, "%llu", &slack) != 1)
		slack = 0;
	return slack;
}

static void set_slack(pid_t id, uint64_t slack)
{
	_cleanup_close_ int file = -1;
	char path[64], text[32];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)slack);

	snprintf(path, sizeof(path), "/proc/%d/timerslack_ns", id);
	file = open(path, O_WRONLY | O_CLOEXEC);
	if (file >= 0)
		(void)!write(file, text, n);
}

static struct lent *entry_of(pid_t id)
{
	for (int i = 0; i < MOST_LENT; i++)
		if (ledger->items[i].id == id)
			return &ledger->items[i];
	return NULL;
}

bool priority_lend(pid_t id, uint64_t slack)
{
	struct lent *entry = entry_of(0);

	if (!entry || !get_attributes(id, &entry->had) || !is_fair(&entry->had))
		return false;
	entry->slack = slack ?: priority_slack(id);
	if (!entry->slack)
		return false;
	leave_usual_slice(&entry->had);
	entry->had.size = sizeof(entry->had);
	__atomic_store_n(&entry->id, id, __ATOMIC_RELEASE);
	if (set_attributes(id, &lending)) {
		fault_point("priority-lent");
		return true;
	}
	__atomic_store_n(&entry->id, 0, __ATOMIC_RELEASE);
	return false;
}

/* If it is still the target's thread, and nobody has changed its priority meanwhile. */
static void give_back(const struct lent *entry)
{
	struct attributes now;

	if (!tgkill(ledger->target, entry->id, 0) && get_attributes(entry->id, &now) &&
	    is_lent(&now))
		set_attributes(entry->id, &entry->had);
}

void priority_take_back(pid_t id)
{
	const struct lent *entry = entry_of(id);

	if (entry)
		give_back(entry);
	fault_point("priority-taken-back");
}

void priority_settle(void)
{
	for (int i = 0; ledger && i < MOST_LENT; i++) {
		struct lent *entry = &ledger->items[i];
		pid_t id = __atomic_load_n(&entry->id, __ATOMIC_ACQUIRE);

		if (!id)
			continue;
		give_back(entry);
		/* The kernel has given it the one that it began with. */
		if (!tgkill(ledger->target, id, 0) && priority_slack(id) != entry->slack)
			set_slack(id, entry->slack);
		__atomic_store_n(&entry->id, 0, __ATOMIC_RELEASE);
	}
}

void priority_raise_own(void)
{
	struct sched_param priority = {.sched_priority = GUARDIANS_PRIORITY};

	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
}

void priority_drop_own(void)
{
	struct sched_param none = {0};

	sched_setscheduler(0, SCHED_OTHER, &none);
}
