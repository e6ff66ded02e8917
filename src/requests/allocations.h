/*
 * What was allocated, estimated from the allocations that the runtime samples for its heap profile:
 * each byte starts a sample with the same probability, one in `rate` on average (runtime/malloc.go:
 * nextSample()). So an object of `size` bytes is sampled with the probability
 * p = 1 - exp(-size / rate), and each sample stands for 1 / p objects, as in runtime/pprof
 * (protomem.go: scaleHeapSample()). With a rate of 1 all are sampled.
 */
#ifndef REQUESTS_ALLOCATIONS_H
#define REQUESTS_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

/* The estimate, and its variance. */
struct allocation_sum {
	uint64_t samples;
	double bytes;
	double objects;
	double bytes_variance;
	double objects_variance;
};

/* Adds a sample; neither `size` nor `rate` is 0. */
void allocation_sum_add(struct allocation_sum *sum, uint64_t size, uint64_t rate);
void allocation_sum_join(struct allocation_sum *sum, const struct allocation_sum *other);
/* The true value is at most so much above the estimate, and no further below it (95 % confidence).
 * `none`: what it is without a sample. */
double allocation_error(double estimate, double variance, double none);
/* The same of the bytes: without a sample it is a multiple of the rate. */
double allocation_error_of_bytes(const struct allocation_sum *sum, uint64_t rate);

struct allocation_stack {
	uint32_t stack; /* of the spans' stacks */
	struct allocation_sum sum;
};

struct allocations {
	struct allocation_sum sum;
	struct allocation_stack *stacks; /* most bytes first, after allocations_complete() */
	size_t count;
	size_t capacity;
	struct map index; /* stack -> index in stacks + 1 */
};

/* False: no memory. */
bool allocations_add(struct allocations *a, uint32_t stack, uint64_t size, uint64_t rate);
bool allocations_join(struct allocations *a, const struct allocations *other);
/* Sorts; nothing can be added afterwards. */
void allocations_complete(struct allocations *a);
void allocations_release(struct allocations *a);

#endif
