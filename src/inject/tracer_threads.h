/*
 * The threads of gospect that stop the target's.
 *
 * ptrace acts on a thread only for the one thread of gospect that traces it. run_on_tracer_thread()
 * starts one for that, at real-time priority where that is permitted, so that the first thread of
 * the target that runs again does not displace it. When it ends, or is killed with us, the kernel
 * lets go of whatever it held.
 */
#ifndef INJECT_TRACER_THREADS_H
#define INJECT_TRACER_THREADS_H

#include <stdbool.h>

#include "base/error.h"

/* Runs `step` in a thread of its own, and waits for it. Job-control stops (Ctrl-Z) wait until it is
 * done: other threads than the caller have to block them. */
struct error *run_on_tracer_thread(struct error *(*step)(void *arg), void *arg) must_check;

/* Whether the thread that asks has a real-time priority. Then a CPU quota does not hold for it. */
bool tracer_is_real_time(void);

/* A second such thread, of the same priority. */
struct second_tracer;

/* To be called in run_on_tracer_thread(). NULL: we have one CPU only, or no thread can be made. */
struct second_tracer *second_tracer_start(void);

/* Runs `job` in both threads and waits for both; `second` says in which one it is. Returns an error
 * of one of them. Where there is no second tracer the job runs once. */
struct error *second_tracer_share(struct second_tracer *second,
				  struct error *(*job)(void *arg, bool second),
				  void *arg) must_check;

/* Ends it. The kernel detaches the threads that it still traces. NULL is allowed. */
void second_tracer_end(struct second_tracer *second);

#endif
