/*
 * CPU samples for a trace: a thread that takes them from the kernel and keeps them, in the order of
 * time, until the events around them are decoded.
 *
 * A sample names its thread and the stack. Which goroutine that is, the trace's own events say. So
 * all samples up to an event are there before that event is given out: cpu_samples_fetch().
 *
 * Memory is bounded: samples wait in 16 MB, and their stacks in another 16 MB. What does not fit is
 * dropped and counted. The unwinder forgets its stacks when they have 8 MB.
 */
#ifndef COLLECT_CPU_SAMPLES_H
#define COLLECT_CPU_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "golayout/golayout.h"
#include "gotrace/c_functions.h"
#include "image/image.h"
#include "target/target.h"

struct cpu_samples;

/* `start_pc` is 0, and `no_goroutine` set, where the thread worked for none. */
struct taken_sample {
	uint64_t ns; /* CLOCK_MONOTONIC */
	uint64_t thread;
	uint64_t start_pc;
	const uint64_t *words; /* of its stack, until the next call */
	uint32_t word_count;
	bool no_goroutine;
};

struct cpu_samples_stats {
	uint64_t period_ns; /* CPU time of a thread between two samples; 0: none were taken */
	uint64_t samples;
	uint64_t lost;           /* by the kernel, or for lack of room here */
	uint64_t threads_unseen; /* threads that have no event, for lack of descriptors */
};

/* Begins to sample, `hz` times a second of each thread's CPU time. ERROR_DENIED,
 * ERROR_UNSUPPORTED: samples cannot be had here, and why. */
struct error *cpu_samples_open(struct target *t, const struct image *img,
			       const struct golayout *lay, double hz, int priority,
			       struct cpu_samples **ret) must_check;

/* All samples up to this time, which has passed, can be taken when this returns. */
void cpu_samples_fetch(struct cpu_samples *c, uint64_t ns);
/* The time of the next one; UINT64_MAX: none waits. */
uint64_t cpu_samples_next(struct cpu_samples *c);
/* The next one up to this time; false: none. */
bool cpu_samples_take(struct cpu_samples *c, uint64_t ns, struct taken_sample *ret);

/* Adds the names of the C functions on its stack. False: no memory. */
bool cpu_samples_name_c(struct cpu_samples *c, const struct taken_sample *sample,
			struct c_functions *ret);

/* Ends sampling: what was sampled so far can still be taken. */
void cpu_samples_stop(struct cpu_samples *c);
void cpu_samples_stats(struct cpu_samples *c, struct cpu_samples_stats *ret);
void cpu_samples_close(struct cpu_samples *c);

#endif
