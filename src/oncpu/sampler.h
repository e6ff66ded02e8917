/*
 * The on-CPU sampler: the stacks of goroutines that run, from perf samples of the target's threads.
 *
 * A goroutine that runs has its stack pointer in registers, so memory alone does not show where it
 * is. The kernel's sample brings the registers and the innermost bytes of the stack: the walk by
 * pcsp begins there, exactly, and goes on by the kernel's frame-pointer chain where the bytes end.
 */
#ifndef ONCPU_SAMPLER_H
#define ONCPU_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "goroutine/goroutines.h"
#include "sample/cpu_source.h"

/* A goroutine's stack, at a moment at which it ran. */
struct oncpu_sighting {
	uint64_t time; /* CLOCK_MONOTONIC */
	uint64_t goid;
	uint32_t stack;
	uint32_t exact; /* by pcsp, however the stacks are unwound */
	bool truncated;
};

struct oncpu_options {
	double hz;
	/* These alone, and those that they make; NULL: all. Not needed after opening. */
	const pid_t *threads;
	size_t thread_count;
	/* Called with each goroutine's stack; NULL: not called. */
	void (*seen)(void *arg, const struct oncpu_sighting *sighting);
	void *arg;
	uint64_t goid;     /* this goroutine alone; 0: all */
	bool no_goroutine; /* the time of threads that work for no goroutine is wanted, too */
	bool mark_system;  /* the runtime's own goroutines are wanted, marked */
	bool kernel;       /* the kernel's frames, too; ERROR_DENIED when these are not permitted */
	bool sample_program; /* labels as of the sample, where permitted: cpu_sample.h */
	bool waits;          /* record also where threads waited for a CPU, if available */
};

struct oncpu_stats {
	uint64_t samples;      /* of the target's threads, in all */
	uint64_t scheduler;    /* of no goroutine: the scheduler, and threads that are not Go's */
	uint64_t unwound;      /* stacks that were whole */
	uint64_t truncated;    /* that were cut */
	uint64_t unknown;      /* that could not be unwound */
	uint64_t by_chain;     /* of which frames come from the kernel's frame-pointer chain */
	uint64_t by_memory;    /* of which frames come from memory read after the sample */
	uint64_t lost;         /* dropped by the kernel */
	uint64_t crowded;      /* left out: too many different stacks with labels */
	size_t threads_unseen; /* for want of file descriptors */
	uint64_t labels_late;  /* that have labels, which were read after the sample */
	uint64_t period_ns;    /* CPU time of a sample */
	bool sees_kernel;      /* time in the kernel is among the samples */
	bool sees_waits;       /* where threads waited for a processor is known, from end to end */
};

struct oncpu_sampler;

/*
 * `set` numbers stacks and labels. ERROR_DENIED, ERROR_UNSUPPORTED: no samples available here, and
 * why.
 */
struct error *oncpu_sampler_open(struct target *t, const struct image *img,
				 const struct golayout *lay, struct goroutine_set *set,
				 const struct oncpu_options *options,
				 struct oncpu_sampler **ret) must_check;
void oncpu_sampler_close(struct oncpu_sampler *s);

/* Reads the kernel's samples since the last time. */
struct error *oncpu_sampler_drain(struct oncpu_sampler *s) must_check;

/* The files that hold the C code in its stacks; they live as long as the sampler. */
struct modules *oncpu_sampler_modules(const struct oncpu_sampler *s);

size_t oncpu_sampler_buckets(const struct oncpu_sampler *s, const struct cpu_bucket **ret);
struct oncpu_stats oncpu_sampler_stats(const struct oncpu_sampler *s);
/* Why labels are not those of the sample; NULL: they are, or that was not wanted. It is
 * the sampler's. */
const struct error *oncpu_sampler_no_sample_program(const struct oncpu_sampler *s);

static inline void cleanup_oncpu_sampler(struct oncpu_sampler **s)
{
	oncpu_sampler_close(*s);
}
#define _cleanup_oncpu_sampler_ __attribute__((cleanup(cleanup_oncpu_sampler)))

#endif
