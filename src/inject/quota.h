/* The processor time that our own control group may use: who has used it up stands still until the
 * next period, and with it whatever it holds. */
#ifndef INJECT_QUOTA_H
#define INJECT_QUOTA_H

#include <stdint.h>

/* How long a period is, where we or a group above us has a quota (cpu.max, cpu.cfs_quota_us); else
 * 0. */
uint64_t quota_period_ns(void);
/* Sleeps for a period, where there are any: then the quota is new, but for what others in our group
 * have used of it. */
void quota_await_period(void);

#endif
