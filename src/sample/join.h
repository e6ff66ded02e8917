/* Joins samples of memory and samples of threads into one wall clock: for the files of this room
 * alone. */
#ifndef SAMPLE_JOIN_H
#define SAMPLE_JOIN_H

#include "sample/buckets.h"
#include "sample/cpu_source.h"

/*
 * Gives running goroutines their stacks: the time of each bucket whose stack is [running] goes to
 * buckets with the stacks of its on-CPU samples, in proportion to their CPU time and their waits
 * for a CPU. Samples of goroutines that memory never showed running count with their CPU time.
 * Samples in a system call take time from the bucket that memory showed. Samples of the runtime's
 * own goroutines count only if `system`.
 *
 * Samples and buckets match by the goroutines' own labels. What gospect knows of a request is
 * among the labels of samples alone: memory does not show which request a running goroutine serves.
 */
struct error *buckets_join(struct buckets *b, struct goroutine_set *set,
			   const struct cpu_bucket *samples, size_t count, uint64_t period_ns,
			   bool system) must_check;

/* A sample's contribution to its bucket. */
struct gain {
	uint64_t ns;
	uint64_t count;
	uint64_t cpu_ns;
	double variance;
	double grain;
	uint32_t creator;
};

/* For a sample in a system call: takes time from the bucket in which memory showed that call. */
struct gain buckets_take_syscall(struct buckets *b, struct goroutine_set *set,
				 const struct cpu_bucket *sample, uint64_t period_ns);

/* The places at which goroutines of a running bucket were sampled: those with most time, at most
 * `max`, most first. Returns their number. */
size_t buckets_shares(const struct wall_bucket *b, struct goroutine_set *set,
		      const struct cpu_bucket *samples, size_t count, uint64_t period_ns,
		      struct wall_share *ret, size_t max);

#endif
