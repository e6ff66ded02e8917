/* The counts of on-CPU samples, and their source. */
#ifndef SAMPLE_CPU_SOURCE_H
#define SAMPLE_CPU_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Samples of goroutines that began at one function, with one set of labels, at one place. */
struct cpu_bucket {
	uint64_t start_pc;
	uint32_t labels;
	uint32_t stack;
	uint64_t count;
	uint64_t waits; /* for a CPU: draws, see oncpu/waits.h */
	uint64_t waited_ns;
	/* In a system call or in C code: memory sees the goroutine in state syscall meanwhile, and
	 * its time there. */
	bool in_syscall;
	/* Its root frame names its purpose: the runtime's own work, or none; start_pc is 0 without
	 * a goroutine. */
	bool is_marked;
};

/* Where running goroutines are, by samples of the target's threads. */
struct cpu_source {
	void *arg;
	/* Reads the samples since the last call: after each tick. */
	struct error *(*drain)(void *arg);
	/* All samples so far; stacks and labels are those of the wall-clock sampler's set. */
	size_t (*buckets)(void *arg, const struct cpu_bucket **ret);
	uint64_t period_ns; /* CPU time of a sample */
	bool fills_fast;    /* no tick may be skipped: its buffer would overflow */
};

#endif
