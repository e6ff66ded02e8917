/*
 * Waits of stopped threads for a processor: where they were stopped, and for how long.
 *
 * The kernel says that a thread leaves its processor, with a sample of where, whether it could have
 * gone on, and when it comes back. Few waits are long, and the long ones make up most of the time.
 * So every 20th millisecond of all waits in sequence is a draw, and the wait in which it lies
 * stands for 20 ms, as a sample of CPU time stands for its period.
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

/* A thread leaves its processor: keeps a copy, without the kernel's frames. False: no memory. */
bool waits_leave(struct waits *w, const struct perf_sample *sample) must_check;
/* It was runnable (otherwise it sleeps, and its sample is dropped). */
void waits_left(struct waits *w, pid_t tid, bool could_run);
/* It is on a CPU again: its sample, if that was drawn, and the time that it stands for; valid until
 * the next call. NULL: it was not drawn, or did not wait. */
const struct perf_sample *waits_return(struct waits *w, pid_t tid, uint64_t time, uint64_t *ret_ns);

static inline void cleanup_waits(struct waits **w)
{
	waits_destroy(*w);
}
#define _cleanup_waits_ __attribute__((cleanup(cleanup_waits)))

#endif
