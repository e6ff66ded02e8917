/*
 * Running time by function: a trace says exactly for how long goroutines ran, and CPU samples say
 * where they were. The samples share that time. With few samples a share is uncertain, so each has
 * its error.
 */
#ifndef REQUESTS_RUNNING_SPLIT_H
#define REQUESTS_RUNNING_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct running_function {
	uint32_t function; /* the innermost of the samples' stacks, in the spans' texts */
	uint64_t samples;
	uint64_t ns;
	uint64_t error_ns; /* `ns` is right within this, 95 times of 100 */
};

struct running_split {
	struct running_function *items; /* longest first, once complete */
	size_t count;
	size_t capacity;
	uint64_t samples;
};

/* False: no memory. */
bool running_split_add(struct running_split *s, uint32_t function, uint64_t samples);
/* Shares so much time out. */
void running_split_complete(struct running_split *s, uint64_t ns);
void running_split_release(struct running_split *s);

/* The time that `some` of `all` samples stand for, and its error; 0 without samples. */
uint64_t sampled_ns(uint64_t some, uint64_t all, uint64_t ns);
uint64_t sampled_error_ns(uint64_t some, uint64_t all, uint64_t ns);

#endif
