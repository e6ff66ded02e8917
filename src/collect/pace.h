/*
 * How urgent a thread's work is. As long as it is not, it has the lowest priority that there is,
 * SCHED_IDLE: it runs when nobody else wants the CPU, and does not delay the program that is
 * traced.
 *
 * Linux lets a thread leave SCHED_IDLE only where it might raise its priority (CAP_SYS_NICE, or
 * RLIMIT_NICE): where it does not, the thread never goes there. Nor does one that somebody has
 * given another policy than the usual one.
 *
 * That is not all: between sessions (sched_autogroup) and control groups Linux shares the
 * CPUs by group, and the only thread of a group gets the group's whole share, SCHED_IDLE or
 * not. So the thread also asks whether a CPU is free, by the number of threads that run or
 * wait for one (/proc/loadavg): it is when there are no more than CPUs.
 */
#ifndef COLLECT_PACE_H
#define COLLECT_PACE_H

#include <stdbool.h>
#include <sys/types.h>

struct pace {
	pid_t thread;
	bool may_wait;   /* and come back */
	int running;     /* /proc/loadavg; -1: it cannot be read */
	long processors; /* that the thread may have */
};

/* Of the calling thread. */
void pace_init(struct pace *p);
/* Others go first from now on. By the thread itself alone: while it reads the target's memory,
 * which takes a lock of the target's, it must not be kept from going on. */
void pace_lower(struct pace *p);
/* As it was before. By any thread. */
void pace_raise(struct pace *p);
/* The thread, which runs, takes a CPU away from nobody; true where that is not known. It
 * takes 2 us. */
bool pace_is_free(const struct pace *p);
void pace_release(struct pace *p);

#endif
