/* The samples since the last lap: see wall_sampler_lap(). For the files of this room alone. */
#ifndef SAMPLE_LAP_H
#define SAMPLE_LAP_H

#include "sample/cpu_source.h"
#include "sample/estimate.h"

struct lap_total {
	uint64_t ns;
	uint64_t count;
};

struct lap {
	struct buckets seen;
	/* For each bucket of the estimate, totals since the beginning: at the last lap, and now. */
	struct lap_total *before, *now;
	size_t before_capacity, now_capacity;
	uint64_t credited; /* at the last lap */
	/* The same for each bucket of samples, with room for new ones. */
	struct cpu_bucket *counted;
	struct cpu_bucket *fresh;
	size_t counted_capacity, fresh_capacity;
	size_t fresh_count;
	/* The new part of each bucket: of a lap that is taken in parts. */
	struct wall_part *parts;
	size_t part_capacity;
	size_t part_count;
};

/* Puts the result of the looks into lap->seen; *ret_ns is the time that it stands for. When that is
 * 0, nothing is taken. */
struct error *lap_take(struct lap *lap, const struct estimate *e,
		       const struct goroutine_record *records, size_t count,
		       uint64_t *ret_ns) must_check;
/* Likewise, but in lap->parts, by the estimate's own buckets. */
struct error *lap_take_parts(struct lap *lap, const struct estimate *e,
			     const struct goroutine_record *records, size_t count,
			     uint64_t *ret_ns) must_check;
/* The samples that came since the last call, in lap->fresh. */
struct error *lap_take_samples(struct lap *lap, const struct cpu_bucket *samples,
			       size_t count) must_check;
/* After estimate_finish(), in lap->parts: what it added to each bucket. */
struct error *lap_take_rest(struct lap *lap, const struct estimate *e) must_check;
/* Adds what came of them since the last call to lap->parts. */
struct error *lap_add_samples(struct lap *lap, const struct cpu_bucket *samples, size_t count,
			      uint64_t period_ns) must_check;
void lap_release(struct lap *lap);

#endif
