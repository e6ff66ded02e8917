/* The samples since the last interval: see wall_sampler_interval(). For the files of this room
 * alone. */
#ifndef SAMPLE_INTERVAL_H
#define SAMPLE_INTERVAL_H

#include "sample/cpu_source.h"
#include "sample/estimate.h"

struct interval_total {
	uint64_t ns;
	uint64_t count;
};

struct interval {
	struct buckets seen;
	/* For each bucket of the estimate, totals since the beginning: at the last interval, and
	 * now. */
	struct interval_total *before, *now;
	size_t before_capacity, now_capacity;
	uint64_t credited; /* at the last interval */
	/* The same for each bucket of samples, with room for new ones. */
	struct cpu_bucket *counted;
	struct cpu_bucket *fresh;
	size_t counted_capacity, fresh_capacity;
	size_t fresh_count;
	/* The gains of all buckets, for an interval that is taken in parts. */
	struct wall_part *parts;
	size_t part_capacity;
	size_t part_count;
};

/* Puts the samples into interval->seen; *ret_ns is the time that they stand for. If that is 0,
 * nothing is taken. */
struct error *interval_take(struct interval *interval, const struct estimate *e,
			    const struct goroutine_record *records, size_t count,
			    uint64_t *ret_ns) must_check;
/* Likewise, into interval->parts, with the estimate's own bucket numbers. */
struct error *interval_take_parts(struct interval *interval, const struct estimate *e,
				  const struct goroutine_record *records, size_t count,
				  uint64_t *ret_ns) must_check;
/* Puts the on-CPU samples since the last call into interval->fresh. */
struct error *interval_take_samples(struct interval *interval, const struct cpu_bucket *samples,
				    size_t count) must_check;
/* After estimate_finish(): puts what it added to each bucket into interval->parts. */
struct error *interval_take_rest(struct interval *interval, const struct estimate *e) must_check;
/* Adds the on-CPU samples since the last call to interval->parts. */
struct error *interval_add_samples(struct interval *interval, const struct cpu_bucket *samples,
				   size_t count, uint64_t period_ns) must_check;
void interval_release(struct interval *interval);

#endif
