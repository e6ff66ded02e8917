/*
 * The on-CPU sampler: the stacks of running goroutines, from perf samples of the target's threads.
 *
 * A running goroutine has its stack pointer in a register, so memory alone does not show where it
 * is. The kernel's sample has the registers and the innermost bytes of the stack. The walk by pcsp
 * begins there, and follows the kernel's frame-pointer callchain where the bytes end.
 */
#ifndef ONCPU_SAMPLER_H
#define ONCPU_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "goroutine/goroutines.h"
#include "sample/cpu_source.h"

/* A goroutine's stack at a time at which it ran. */
struct oncpu_sighting {
	uint64_t time; /* CLOCK_MONOTONIC */
	uint64_t goid;
	uint32_t stack;
	uint32_t exact; /* by pcsp, however the stacks are unwound */
	bool truncated;
	/* The user's registers, and the sample's copy of the memory from its stack pointer on: of
	 * the goroutine's own stack, or of another one that its thread is on. Valid during the
	 * call. */
	struct goroutine_memory memory;
};

/* A sample of a thread, whatever it worked for. */
struct oncpu_thread_sample {
	uint64_t time;     /* CLOCK_MONOTONIC */
	uint64_t thread;   /* m.procid; of a thread that is not Go's, its id here */
	uint64_t start_pc; /* of the goroutine whose stack it is; 0: not known, or of none */
	uint32_t stack;    /* its outermost word says what it is of, if not of a goroutine */
	bool no_goroutine;
};

struct oncpu_options {
	double hz;
	/* Takes each sample, instead of counting it; then the set may be NULL, and stacks are
	 * numbers of `stacks`. NULL: samples are counted. */
	struct error *(*sampled)(void *arg, const struct oncpu_thread_sample *sample);
	struct stacks *stacks;
	/* Samples only these threads and those that they create; NULL: all. Not needed after
	 * opening. */
	const pid_t *threads;
	size_t thread_count;
	/* Called with each goroutine's stack; NULL: not called. */
	void (*seen)(void *arg, const struct oncpu_sighting *sighting);
	void *arg;          /* of these */
	uint64_t goid;      /* this goroutine alone; 0: all */
	size_t stack_bytes; /* the least that a sample has of its stack; 0: what unwinding needs */
	bool no_goroutine;  /* include the time of threads that work for no goroutine */
	bool mark_system;   /* mark the runtime's own goroutines */
	bool kernel;        /* include the kernel's frames; ERROR_DENIED if that is not permitted */
	bool sample_program; /* labels as of the sample, where permitted: cpu_sample.h */
	bool waits;          /* record also where threads waited for a CPU, if available */
};

struct oncpu_stats {
	uint64_t samples;      /* all samples of the target's threads */
	uint64_t scheduler;    /* without a goroutine: in the scheduler, or on threads that are not
				* Go's */
	uint64_t unwound;      /* complete stacks */
	uint64_t truncated;    /* incomplete stacks */
	uint64_t unknown;      /* that could not be unwound */
	uint64_t by_chain;     /* stacks with frames from the kernel's callchain */
	uint64_t by_memory;    /* stacks with frames from memory read after the sample */
	uint64_t lost;         /* dropped by the kernel */
	uint64_t crowded;      /* left out: too many distinct stacks with labels */
	size_t threads_unseen; /* threads without events, for lack of file descriptors */
	uint64_t labels_late;  /* samples with labels that were read after the sample */
	uint64_t period_ns;    /* CPU time that a sample stands for */
	bool sees_kernel;      /* samples include time in the kernel */
	bool sees_waits;       /* all waits for a CPU were seen, from start to end */
};

struct oncpu_sampler;

/*
 * `set` holds stacks and labels; see options.sampled. ERROR_DENIED, ERROR_UNSUPPORTED: no samples
 * available here, and why.
 */
struct error *oncpu_sampler_open(struct target *t, const struct image *img,
				 const struct golayout *lay, struct goroutine_set *set,
				 const struct oncpu_options *options,
				 struct oncpu_sampler **ret) must_check;
void oncpu_sampler_close(struct oncpu_sampler *s);

/* Reads the kernel's samples since the last call. */
struct error *oncpu_sampler_drain(struct oncpu_sampler *s) must_check;

/* With options.sampled: keeps stacks in these from now on, and needs the former no more. */
struct error *oncpu_sampler_use_stacks(struct oncpu_sampler *s, struct stacks *stacks) must_check;

/* The files with the C code of its stacks; they live as long as the sampler. */
struct modules *oncpu_sampler_modules(const struct oncpu_sampler *s);

size_t oncpu_sampler_buckets(const struct oncpu_sampler *s, const struct cpu_bucket **ret);
struct oncpu_stats oncpu_sampler_stats(const struct oncpu_sampler *s);
/* Why labels are not those at the time of the sample; NULL: they are, or were not requested. Owned
 * by the sampler. */
const struct error *oncpu_sampler_no_sample_program(const struct oncpu_sampler *s);

static inline void cleanup_oncpu_sampler(struct oncpu_sampler **s)
{
	oncpu_sampler_close(*s);
}
#define _cleanup_oncpu_sampler_ __attribute__((cleanup(cleanup_oncpu_sampler)))

#endif
