/*
 * A real-time priority for threads that are asked to stop.
 *
 * A thread stops when it next gets a CPU. On a busy machine that takes milliseconds, and the
 * threads that have stopped before it wait. gospect lends such a thread a real-time priority, so it
 * gets a CPU at once. At its stop gospect restores its scheduling: policy, nice value, slice,
 * reset-on-fork and timer slack.
 *
 * gospect saves the old scheduling first, in memory that it shares with the guardian. If gospect is
 * killed in between, the guardian restores it. Without a guardian no priority is lent, and never to
 * threads that have a real-time or deadline policy of their own.
 */
#ifndef INJECT_PRIORITY_H
#define INJECT_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Maps the shared memory, before the guardian is forked. On failure no priority is lent. */
void priority_prepare(pid_t target);

/* Whether anything may be lent in the stop that is to come; reads /proc. */
bool priority_can_be_lent(pid_t guardian);

/* As /proc/ID/timerslack_ns has it; 0: unknown. To be read before threads are stopped. */
uint64_t priority_slack(pid_t id);

/* false: it was not lent. */
bool priority_lend(pid_t id, uint64_t slack);
/* To a thread that was lent one. Its timer slack may be wrong until priority_settle(). */
void priority_take_back(pid_t id);
/* All that is lent, and timer slacks: when no thread is held any more, or gospect has ended. */
void priority_settle(void);

/* For the guardian, which needs a CPU while a priority is lent; and only then. */
void priority_raise_own(void);
void priority_drop_own(void);

#endif
