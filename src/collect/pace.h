/*
 * How urgent a thread's work is. A thread without urgent work has the lowest priority, SCHED_IDLE:
 * it runs when no other thread wants the CPU, and does not delay the traced program.
 *
 * Linux lets a thread leave SCHED_IDLE only where it might raise its priority (CAP_SYS_NICE, or
 * RLIMIT_NICE): where it does not, the thread never goes there. A thread with another policy than
 * the usual one keeps it.
 *
 * That is not all: between sessions (sched_autogroup) and control groups Linux shares the CPUs by
 * group, and the only thread of a group gets the group's whole share, SCHED_IDLE or not. So the
 * thread also asks whether a CPU is free, by the number of threads that run or wait for one
 * (/proc/loadavg): it is when there are no more than CPUs.
 */
#ifndef COLLECT_PACE_H
#define COLLECT_PACE_H

#include <stdbool.h>
#include <sys/types.h>

struct pace {
	pid_t thread;
	bool may_wait;   /* and come back */
	int running;     /* /proc/loadavg; -1: it cannot be read */
	long processors; /* CPUs that the thread may use */
};

/* For the calling thread. */
void pace_init(struct pace *p);
/* Others go first from now on. By the thread itself alone: while it reads the target's memory,
 * which takes a lock of the target's, it must not be kept from going on. */
void pace_lower(struct pace *p);
/* As it was before. By any thread. */
void pace_raise(struct pace *p);
/* Whether the thread would take no CPU from another; true where that is unknown. Takes 2 us. */
bool pace_is_free(const struct pace *p);
void pace_release(struct pace *p);

#endif
