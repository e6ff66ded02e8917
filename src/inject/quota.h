/*
 * CPU quotas of control groups (cpu.max, cpu.cfs_quota_us). When the processes of a group have used
 * up its quota, the kernel throttles them: they get no CPU until the next period. Threads that
 * gospect holds by ptrace stay stopped for as long, when gospect is throttled. When the target is,
 * its threads do not stop. Threads with a real-time policy are not throttled.
 */
#ifndef INJECT_QUOTA_H
#define INJECT_QUOTA_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The smallest of those that hold for a process: of its group, and of the groups around it. */
struct quota {
	uint64_t period_ns;    /* 0: there is none */
	uint64_t runtime_ns;   /* CPU time of the whole group in each period */
	uint64_t longest_ns;   /* the longest period of these groups */
	char counts[PATH_MAX]; /* the file that counts the periods (cpu.stat) */
};

/* `pid` 0: ours. None, too, where we do not see the group's files. */
void quota_find(pid_t pid, struct quota *ret);
/* The same by these files: /proc/PID/cgroup and /proc/self/mountinfo. */
void quota_find_in(const char *groups, const char *mounts, struct quota *ret);
/* Whether it is one quota, which both use up. */
bool quota_is_same(const struct quota *a, const struct quota *b);

/* Waits for the beginning of a period, for one period at most: when nobody of the group uses a CPU
 * the kernel counts none, and the quota is whole. */
void quota_await_period(const struct quota *q);
/* Sleeps before that for so long that what we have used, also in the groups around, has no effect
 * any more. */
void quota_await_whole(const struct quota *q);

#endif
