/*
 * A thread that does little, often, and must not wait for others: it has a real-time priority where
 * that is permitted (CAP_SYS_NICE, RLIMIT_RTPRIO), and a high usual one elsewhere.
 *
 * Between sessions and control groups Linux shares the CPUs by group, and a nice value counts
 * within one alone; a real-time priority counts for all. So it must be used for microseconds only:
 * a thread that takes more of a CPU than MOST_SHARE, for example in a flood of events, loses the
 * priority until it takes less.
 *
 * For the thread whose it is.
 */
#ifndef COLLECT_PRECEDENCE_H
#define COLLECT_PRECEDENCE_H

#include <stdbool.h>
#include <stdint.h>

struct precedence {
	bool may;    /* have a real-time priority */
	bool has;    /* has it now */
	int policy;  /* before */
	int nice;    /* likewise */
	uint64_t ns; /* when we looked last how much it takes, and that */
	uint64_t cpu_ns;
};

void precedence_take(struct precedence *p);
/* To be called again and again. */
void precedence_check(struct precedence *p);
/* As it was before precedence_take(). */
void precedence_give_back(struct precedence *p);

#endif
