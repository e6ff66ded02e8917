/*
 * The threads of a Go program as the runtime knows them (runtime.m), and the goroutine of each. It
 * reads memory when it is asked, which may have changed since the sample.
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
/* Time has passed: look for unknown threads again. */
void go_threads_stale(struct go_threads *threads);

/* The thread's m; 0: it is not a Go thread. */
uint64_t go_threads_m(struct go_threads *threads, pid_t tid);
/* The thread's id as the runtime has it (m.procid); without one, `tid`. */
uint64_t go_threads_procid(struct go_threads *threads, pid_t tid);
/* The g that the thread works for; 0: none, or it is not a Go thread. */
uint64_t go_threads_goroutine(struct go_threads *threads, pid_t tid);
/* Where the thread left its own stack (m.g0.sched.sp). */
bool go_threads_own_sp(struct go_threads *threads, pid_t tid, uint64_t *ret);
bool go_threads_is_go(struct go_threads *threads, pid_t tid);

#endif
