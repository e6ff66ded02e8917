/* The CPU quota of gospect's own cgroup. The kernel throttles a process that has used up its quota
 * until the next period; threads that it holds by ptrace stay stopped for as long. */
#ifndef INJECT_QUOTA_H
#define INJECT_QUOTA_H

#include <stdint.h>

/* How long a period is, where we or a group above us has a quota (cpu.max, cpu.cfs_quota_us); else
 * 0. */
uint64_t quota_period_ns(void);
/* The same by these files: /proc/self/cgroup and /proc/self/mountinfo. */
uint64_t quota_period_in(const char *groups, const char *mounts);
/* Sleeps for one period: then the quota is new, apart from the use by other processes of the group.
 */
void quota_await_period(uint64_t period_ns);

#endif
