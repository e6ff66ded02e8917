/*
 * The wall-clock sampler: where every goroutine is, at each tick, until the end of the recording.
 *
 * A pass samples all goroutines once. If the budget of a tick suffices, a pass takes one tick.
 * Otherwise it takes several; units of goroutines come in a new random order each time, and a
 * sample stands for the time of its pass. So each goroutine is sampled at a random time of each
 * pass, and the estimate is unbiased, whatever the budget.
 *
 * A running goroutine has its stack pointer in a register, so memory shows only that it runs, and
 * since when. A source of on-CPU samples says where. Goroutines with the same start function and
 * labels form a group; their running time is divided between stacks in proportion to the group's
 * on-CPU samples. So no goroutine counts twice at the same time.
 *
 * Two things are unknown: where a goroutine was that ran between two samples, and the goroutines
 * that a shortened pass did not reach. The result has the resulting error (precision.h).
 *
 * The time credited is the time that really passed. A goroutine that did not run between two
 * samples costs one comparison, and its time is exact.
 *
 * A tick comes at a random time in its period, so a target that works in step with the sampling
 * rate is measured right.
 */
#ifndef SAMPLE_WALL_H
#define SAMPLE_WALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "goroutine/goroutines.h"
#include "sample/bucket.h"
#include "sample/cpu_source.h"

struct wall_options {
	double hz;
	double budget;      /* CPU time that may be used, as a share of one core; 0: no limit */
	double duration;    /* seconds; 0: until *stop */
	uint64_t goid;      /* only this goroutine; 0: all */
	bool system;        /* the runtime's own goroutines too */
	size_t stack_limit; /* bytes of a stack that are read at most */
	struct unwinding unwind;                        /* how frames are found */
	bool request_names, request_paths, request_ids; /* see struct goroutine_options */
	size_t read_bytes;                              /* see struct goroutine_options */
	/* Samples all goroutines at first, whatever that costs: for callers that show them at
	 * once. */
	bool whole_first;
	/* Only this thread stops it, in the handler of a signal, which interrupts a sleep. So it
	 * needs not wake up to look, which costs more CPU time than samples of a small budget. */
	bool sleeps_long;
	/* Called when a requested goroutine is in another place than in the last sample, or ran in
	 * between; `before` may be another goroutine, or none. `now` is CLOCK_MONOTONIC. */
	void (*moved)(void *arg, const struct goroutine_record *before,
		      const struct goroutine_record *after, uint64_t now);
	void *moved_arg;
	/* wall_sampler_run() calls it with each time that a goroutine spent in a bucket, when that
	 * ends. */
	void (*stayed)(void *arg, const struct wall_stay *stay);
	void *stayed_arg;
	bool creators; /* goroutines of different creators have different buckets */
	/* The program does not run before the first call of `progress`. All goroutines are sampled
	 * before that, because it may end before the first tick. */
	bool held;
	const atomic_int *stop; /* ends the recording within 50 ms when it is not 0; for any
				 * thread */
	/* Called when it begins, and then about once a second. */
	void (*progress)(void *arg, double seconds, uint64_t samples);
	/* wall_sampler_run() calls it with the samples since the last call, as often as a small
	 * share of the budget permits. It must return quickly. */
	struct error *(*part)(void *arg, uint64_t begin, uint64_t end,
			      const struct wall_part *parts, size_t count);
	void *part_arg;
	void *arg; /* of progress() */
};

struct wall_result {
	uint64_t start_ns;    /* CLOCK_REALTIME */
	uint64_t duration_ns; /* from the first tick to the end */
	uint64_t cpu_ns;      /* used by this thread meanwhile */
	uint64_t ticks;
	uint64_t missed;   /* ticks that came too late and were skipped */
	uint64_t passes;   /* complete ones */
	double looks;      /* samples of each goroutine: passes, and the part of the last one */
	double goroutines; /* the mean number that was counted */
	double per_tick;   /* the mean number that was sampled in a tick */
	double error;      /* error of all stacks' shares together, at 95 % confidence */
	/* How often a goroutine counted without its labels or its stack, because there were too
	 * many different ones. */
	uint64_t crowded;
	/* How often a go statement was left out, because there were too many. */
	uint64_t creators_left_out;
	struct error *ended; /* why it ended early: ERROR_GONE, or memory became unreadable; or
			      * NULL */
};

struct wall_sampler;

struct error *wall_sampler_open(struct target *t, const struct image *img,
				const struct golayout *lay, const struct wall_options *options,
				struct wall_sampler **ret) must_check;
void wall_sampler_close(struct wall_sampler *s);

/* Call it before the recording begins. `arg` must live as long as it runs. Without a source,
 * running goroutines have the stack [running]. */
void wall_sampler_use(struct wall_sampler *s, const struct cpu_source *source);

/* Samples until the end; the end of the target is no error, but noted in the result. */
struct error *wall_sampler_run(struct wall_sampler *s) must_check;

/*
 * The same in steps, for callers with other work between two ticks: begin once, then step, until
 * *ret_more is false or there is an error; ERROR_GONE: the target ended. A step sleeps until the
 * next tick and samples. The only results are the intervals.
 */
struct error *wall_sampler_begin(struct wall_sampler *s) must_check;
struct error *wall_sampler_step(struct wall_sampler *s, bool *ret_more) must_check;
/* The caller's work until the next step is long: it is not charged to the budget, and runs at
 * normal priority. */
void wall_sampler_pause(struct wall_sampler *s);

/* The samples of an interval. */
struct wall_interval {
	uint64_t ns; /* the time that they stand for: up to the last complete pass */
	/* As in a recording of that time alone, but without idle times and errors. Empty buckets
	 * are left out. */
	const struct wall_bucket *buckets;
	size_t count;
};

/* The samples since the last interval, or since the beginning; between two steps. Without a
 * complete pass ns is 0, and the samples are left to the next interval. Valid until then. */
struct error *wall_sampler_interval(struct wall_sampler *s, struct wall_interval *ret) must_check;

/* Another budget from now on, also more than 0; for a sampler that has one. */
void wall_sampler_set_budget(struct wall_sampler *s, double budget);

/* So many ticks a second from now on; for a sampler without a budget. */
void wall_sampler_set_rate(struct wall_sampler *s, double hz);

/* The bucket of a part's samples: stack, labels and status; false: there is none. */
bool wall_sampler_sampled(const struct wall_sampler *s, uint32_t bucket, struct wall_bucket *ret);

/* Whether a goroutine is counted: alive, and requested. */
bool wall_sampler_counts(const struct goroutine_record *r);
/* How long it has been where it was last seen, at least: the CLOCK_MONOTONIC time at which it was
 * seen to arrive. If it was there in the first sample, the time that the runtime has (g.waitsince,
 * which a garbage collection sets). Only with options.creators. */
uint64_t wall_sampler_since(const struct wall_sampler *s, const struct goroutine_record *r);
/* The go statement (a return address) of a bucket's creator, or a record's owner_creator. */
uint64_t wall_sampler_creator(const struct wall_sampler *s, uint32_t creator);

/* Where goroutines of this bucket of the result ran, if they did and CPU samples say it: the places
 * with most time, at most `max`, most first. Returns their number. */
size_t wall_sampler_shares(const struct wall_sampler *s, uint32_t bucket, struct wall_share *ret,
			   size_t max);

/* How often each goroutine was sampled so far. */
struct wall_looks {
	double count;
	double squares; /* the sum of the squared intervals between samples, in s^2 */
};

struct wall_looks wall_sampler_looks(const struct wall_sampler *s);

const struct wall_result *wall_sampler_result(const struct wall_sampler *s);
/* The set with the stacks and labels of the buckets. */
struct goroutine_set *wall_sampler_set(struct wall_sampler *s);
/* Some buckets may have a count of 0. */
size_t wall_sampler_buckets(const struct wall_sampler *s, const struct wall_bucket **ret);

static inline void cleanup_wall_sampler(struct wall_sampler **s)
{
	wall_sampler_close(*s);
}
#define _cleanup_wall_sampler_ __attribute__((cleanup(cleanup_wall_sampler)))

#endif
