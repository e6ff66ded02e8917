/* A counter of a recording: the time of goroutines with one state, stack and labels. */
#ifndef SAMPLE_BUCKET_H
#define SAMPLE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "goroutine/goroutines.h"

/* Goroutines seen in one state, at one place, with one set of labels. */
struct wall_bucket {
	uint32_t stack;
	uint32_t labels;
	enum goroutine_status status;
	uint8_t wait_reason; /* when waiting */
	uint32_t creator;    /* see wall_sampler_creator(); 0: not known, or not asked for */
	uint64_t count;      /* samples */
	uint64_t ns;
	uint64_t cpu_ns; /* of running ones: CPU time, by the kernel's samples where there are some
			  */
	uint64_t idle_count; /* the part by goroutines that were there from the first sample to the
			      * last */
	uint64_t idle_ns;
	uint64_t longest_ns; /* how long a goroutine was there without a break, at most */
	uint64_t longest_goroutine;
	double variance; /* of ns, in ns^2 */
	double grain;    /* of ns: the time that a single draw stands for */
};

/* A time that a goroutine spent in one bucket. */
struct wall_stay {
	uint64_t goroutine;
	uint64_t begin, end; /* ns since the beginning */
	uint32_t bucket;
	bool runs;  /* its state is running */
	bool whole; /* from the first sample to the last */
};

/* The part of running goroutines' time that CPU samples of one place have. */
struct wall_share {
	uint32_t stack;
	uint32_t labels;
	uint64_t ns;
};

/* The gain of one bucket in an interval. */
struct wall_part {
	uint32_t bucket; /* its index in the result; is_sampled: among the on-CPU samples */
	bool is_sampled; /* see wall_sampler_sampled() */
	uint64_t ns;
};

#endif
