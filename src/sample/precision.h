/*
 * How far off the shares of a recording may be, from the recording itself.
 *
 * The state of a goroutine between two looks is unknown if it ran meanwhile. The looks of one tick
 * are one moment: goroutines may well do the same in step. So a tick is what counts as one draw,
 * and its goroutines that came to a place, less those that left it since the look before, tell how
 * much that place's draws vary: the variance by successive differences, which is that of stratified
 * sampling with one draw a stratum, and on the safe side where there is a trend (Wolter,
 * Introduction to Variance Estimation, chapter 8). Goroutines that stay where they are make none,
 * however few of them are looked at twice.
 *
 * The first pass has no look before it: it varies as the others did, or, when they are too few,
 * as its ticks do among themselves.
 *
 * A place that no tick has met has no variance. n draws without it permit a share of about 3 / n of
 * the moving time. That is the least error, and all of it when the draws are few.
 */
#ifndef SAMPLE_PRECISION_H
#define SAMPLE_PRECISION_H

#include "sample/buckets.h"

/* The tally of one bucket. */
struct tally {
	double delta;          /* goroutines that came, less those that left; in this tick */
	double net;            /* in this pass */
	double squares;        /* of this pass's deltas */
	double past_squares;   /* of all passes but the first, as variances of one look */
	double variance;       /* in ns^2 */
	double first;          /* goroutines in the first pass */
	double first_squares;  /* of them a tick */
	double first_products; /* of them and of all in the tick */
	bool in_tick;
	bool in_pass;
};

struct precision {
	struct tally *tallies;
	size_t capacity;
	uint32_t *in_tick;
	size_t tick_count;
	size_t tick_capacity;
	uint32_t *in_pass;
	size_t pass_count;
	size_t pass_capacity;

	double tick_looks; /* at goroutines that are new, or ran since the look before */
	double pass_looks;
	size_t pass_ticks;
	size_t passes;
	size_t ticks;
	size_t moving_ticks; /* with looks, in later passes than the first */
	double moving_ns;    /* what those looks stand for */

	double first_ns; /* how long the first pass took */
	double first_looks;
	double first_looks_squares; /* a tick's */
	size_t first_ticks;
};

/* A goroutine was in one bucket at the look before and is in the other now; BUCKET_NONE: it did not
 * exist or does not count. Not called for goroutines that did not run in between. False: no memory.
 */
bool precision_look(struct precision *p, uint32_t before, uint32_t now) must_check;
/* The looks since the last call were of one moment. */
void precision_end_tick(struct precision *p);
/* All units were looked at; the samples stand for that time. */
void precision_end_pass(struct precision *p, double ns);
/* Only one in `scale` of the goroutines was looked at in that time. */
void precision_cut_pass(struct precision *p, double ns, double scale);

/* By how many more goroutines were in the bucket at this pass's looks than at the ones before.
 */
double precision_net(const struct precision *p, uint32_t bucket);

/* Gives the buckets variance and grain. Their times are complete. */
void precision_tell(const struct precision *p, struct buckets *b);
/* Within so much of the truth are the shares of all stacks together, 19 times of 20. */
double precision_error(const struct precision *p, const struct buckets *b);
void precision_release(struct precision *p);

#endif
