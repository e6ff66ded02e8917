/*
 * From looks at goroutines to times: the estimator of the wall-clock sampler, without clock and
 * memory of a target, so that it can be simulated.
 *
 * Looks come in passes: all units of goroutines once, in a random order, at one moment or over
 * several ticks. The result of a look stands for the time of its pass. A pass that is cut
 * short has looked at a random part: the rest is assumed unchanged, apart from the change seen in
 * that part.
 *
 * For the files of this room alone.
 */
#ifndef SAMPLE_ESTIMATE_H
#define SAMPLE_ESTIMATE_H

#include "sample/buckets.h"
#include "sample/precision.h"

struct estimate {
	struct buckets buckets;
	struct precision precision;
	uint64_t random;

	/* The pass under way. */
	uint32_t *order; /* of units */
	size_t order_capacity;
	size_t unit_count;
	size_t next; /* in order: the first that was not looked at */
	uint64_t began;

	uint64_t passes;   /* complete ones */
	uint64_t credited; /* ns that they stand for */
};

/* `seed` is not 0. */
void estimate_init(struct estimate *e, uint64_t seed);
void estimate_release(struct estimate *e);

/* From 0 up to 1. */
double estimate_random(struct estimate *e);

/* A pass's time goes from its beginning to its end; the next begins where it ends. No moment
 * is taken to be before the one said last. */
struct error *estimate_begin_pass(struct estimate *e, uint64_t now, size_t unit_count,
				  bool shuffled) must_check;
void estimate_end_pass(struct estimate *e, uint64_t now);
/* The first pass's time begins only now, though there were looks in it: nothing ran so far. */
void estimate_begin_at(struct estimate *e, uint64_t now);
/* The units up to e->next were looked at; those since the last call at one moment. */
void estimate_end_tick(struct estimate *e, size_t next);

/* A goroutine whose record changed, or may have; the owner's members of `now` are set. */
struct error *estimate_see(struct estimate *e, const struct goroutine_record *before,
			   struct goroutine_record *now, bool wanted) must_check;

/* Credits the rest of each goroutine's time, and computes the errors. */
void estimate_finish(struct estimate *e, uint64_t now, const struct goroutine_record *records,
		     const struct goroutine_unit *units);

#endif
