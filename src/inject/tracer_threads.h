/*
 * The threads of gospect that stop the target's.
 *
 * ptrace acts on a thread only for the one thread of gospect that traces it. run_on_tracer_thread()
 * starts one for that, at real-time priority where that is permitted, so that the first thread of
 * the target that runs again does not displace it. When it ends, or is killed with us, the kernel
 * detaches its threads.
 */
#ifndef INJECT_TRACER_THREADS_H
#define INJECT_TRACER_THREADS_H

#include <stdbool.h>

#include "base/error.h"

/* Runs `step` in a thread of its own, and waits for it. Job-control stops (Ctrl-Z) wait until it is
 * done: other threads than the caller have to block them. */
struct error *run_on_tracer_thread(struct error *(*step)(void *arg), void *arg) must_check;

/* One that goes on by itself, for what it traces must be traced for longer. It calls
 * tracer_relax() when nothing waits for it any more. */
struct tracer_thread;
struct error *tracer_thread_start(struct error *(*step)(void *arg), void *arg,
				  struct tracer_thread **ret) must_check;
/* In it: from here on it has no priority, and its waits are not interrupted. */
void tracer_relax(void);
/* Waits for its end; the error is that of the step. */
struct error *tracer_thread_join(struct tracer_thread *tracer) must_check;

/* Whether the calling thread has a real-time priority. Then a CPU quota does not hold for it. */
bool tracer_is_real_time(void);

/*
 * Helpers: more tracer threads, for sleeping threads of the target.
 *
 * A helper resumes its threads by ending. The kernel then detaches all of them at once and wakes
 * them up, in 1.5 us each. PTRACE_DETACH takes 4 to 8 us, because it takes and frees a lock of all
 * processes each time. The kernel holds that lock, with interrupts off, until all threads of a
 * helper are detached. So a helper has a few hundred.
 */
struct helpers;

/* To be called in run_on_tracer_thread(). Starts `count`, or fewer; NULL: no thread can be made. */
struct helpers *helpers_start(unsigned int count);
/* 0 for NULL. */
unsigned int helpers_count(const struct helpers *h);

/* Runs `job` in the caller (`part` 0) and in each helper (1 and up), and waits for all. Returns an
 * error of one of them. */
struct error *helpers_share(struct helpers *h, struct error *(*job)(void *arg, unsigned int part),
			    void *arg) must_check;

/* Ends them one after the other: the threads that they trace run on when this returns. NULL is
 * allowed. */
void helpers_end(struct helpers *h);

#endif
