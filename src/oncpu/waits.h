/*
 * Waits of preempted threads for a CPU: where they were stopped, and for how long.
 *
 * The kernel reports when a thread leaves its CPU, with a sample of its stack, whether it was still
 * runnable, and when it returns. Few waits are long, but these make up most of the time. So all
 * waits are put in sequence, and every 20th millisecond of it is a draw. The wait in which a draw
 * lies stands for 20 ms.
 */
#ifndef ONCPU_WAITS_H
#define ONCPU_WAITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "oncpu/perf_events.h"

struct waits;

struct waits *waits_create(void);
void waits_destroy(struct waits *w);

/* A thread leaves its CPU: keeps a copy of the sample, without the kernel's frames. False: no
 * memory. */
bool waits_leave(struct waits *w, const struct perf_sample *sample) must_check;
/* Says whether the thread was runnable; otherwise it sleeps, and its sample is dropped. */
void waits_left(struct waits *w, pid_t tid, bool could_run);
/* The thread is on a CPU again. Returns its sample if it was drawn, and the time that it stands
 * for; valid until the next call. NULL: it was not drawn, or did not wait. */
const struct perf_sample *waits_return(struct waits *w, pid_t tid, uint64_t time, uint64_t *ret_ns);

static inline void cleanup_waits(struct waits **w)
{
	waits_destroy(*w);
}
#define _cleanup_waits_ __attribute__((cleanup(cleanup_waits)))

#endif
