/*
 * The threads of a Go program as the runtime knows them (runtime.m), and the goroutine of each.
 * Read from memory now; it may have changed since the sample.
 */
#ifndef ONCPU_GO_THREADS_H
#define ONCPU_GO_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "golayout/golayout.h"
#include "target/target.h"

struct go_threads {
	struct target *t;
	const struct golayout *lay;
	struct map m;   /* tid -> its m; 0: none was found */
	bool are_fresh; /* read since the last go_threads_stale() */
};

void go_threads_release(struct go_threads *threads);
/* Time has passed: a thread that is not known is looked for again. */
void go_threads_stale(struct go_threads *threads);

/* Its m; 0: the thread is not Go's. */
uint64_t go_threads_m(struct go_threads *threads, pid_t tid);
/* The g that it works for; 0: none, or the thread is not Go's. */
uint64_t go_threads_goroutine(struct go_threads *threads, pid_t tid);
/* Where it left its own stack (m.g0.sched.sp). */
bool go_threads_own_sp(struct go_threads *threads, pid_t tid, uint64_t *ret);
bool go_threads_is_go(struct go_threads *threads, pid_t tid);

#endif
