/* The counts of on-CPU samples, and their source. */
#ifndef SAMPLE_CPU_SOURCE_H
#define SAMPLE_CPU_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Samples of goroutines with one start function, one set of labels and one stack. */
struct cpu_bucket {
	uint64_t start_pc;
	uint32_t labels;
	uint32_t own; /* of these, the goroutine's own labels: buckets_join() finds them out */
	uint32_t stack;
	uint64_t count;
	uint64_t waits; /* draws of waits for a CPU: see oncpu/waits.h */
	uint64_t waited_ns;
	/* In a system call or in C code: memory shows the goroutine in state syscall at that time,
	 * and the time there. */
	bool in_syscall;
	/* The root frame says what it is: the runtime's own work, or no goroutine. Then start_pc is
	 * 0. */
	bool is_marked;
};

/* Where running goroutines are: samples of the target's threads. */
struct cpu_source {
	void *arg;
	/* Reads the samples since the last call: after each tick. */
	struct error *(*drain)(void *arg);
	/* All samples so far; stacks and labels are those of the wall-clock sampler's set. */
	size_t (*buckets)(void *arg, const struct cpu_bucket **ret);
	uint64_t period_ns; /* CPU time that a sample stands for */
	bool fills_fast;    /* no tick may be skipped, because the buffer would overflow */
};

#endif
