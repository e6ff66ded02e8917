/*
 * The estimator of the wall-clock sampler: from samples of goroutines to times. It has no clock and
 * no target, so a simulation can test it.
 *
 * A pass scans all units of goroutines once, in a random order, in one tick or over several. A
 * sample stands for the time of its pass. A pass that the end cuts short has scanned a random part.
 * The rest is assumed to have changed in the same proportion.
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

	/* The current pass. */
	uint32_t *order; /* of units */
	size_t order_capacity;
	size_t unit_count;
	size_t next; /* index into order: the first unit that was not scanned */
	uint64_t began;

	/* Called with each time that a goroutine spent in a bucket, when that ends; or NULL. */
	void (*stayed)(void *arg, const struct wall_stay *stay);
	void *stayed_arg;

	uint64_t passes;   /* complete passes */
	uint64_t credited; /* ns that these stand for */
};

/* `seed` is not 0. */
void estimate_init(struct estimate *e, uint64_t seed);
void estimate_release(struct estimate *e);

/* A random number from 0 up to 1. */
double estimate_random(struct estimate *e);

/* A pass lasts from its beginning to its end; the next begins where it ends. Times never go
 * back. */
struct error *estimate_begin_pass(struct estimate *e, uint64_t now, size_t unit_count,
				  bool shuffled) must_check;
void estimate_end_pass(struct estimate *e, uint64_t now);
/* Starts the time of the first pass only now, although it was scanned already: nothing ran so
 * far. */
void estimate_begin_at(struct estimate *e, uint64_t now);
/* The units up to e->next were scanned; those since the last call at one moment. */
void estimate_end_tick(struct estimate *e, size_t next);

/* A goroutine whose record changed, or may have changed; the owner's members of `now` are set. */
struct error *estimate_see(struct estimate *e, const struct goroutine_record *before,
			   struct goroutine_record *now, bool wanted) must_check;

/* Credits the rest of each goroutine's time, and computes the errors. */
void estimate_finish(struct estimate *e, uint64_t now, const struct goroutine_record *records,
		     const struct goroutine_unit *units);

#endif
