/*
 * Estimates the error of a recording's shares from the recording itself.
 *
 * The state of a goroutine between two samples is unknown if it ran meanwhile. Goroutines may move
 * in step, so all samples of a tick count as one draw. Goroutines that came to a place, less those
 * that left it since the sample before, show how much the place's draws vary. This is the variance
 * by successive differences: that of stratified sampling with one draw a stratum, and too large
 * rather than too small where there is a trend (Wolter, Introduction to Variance Estimation,
 * chapter 8). Goroutines that stay where they are add no variance.
 *
 * The first pass has no samples before it. It gets the variance of the others, or, if they are too
 * few, the variance among its own ticks.
 *
 * A place that no tick has met has no variance. n draws without it permit a share of about 3 / n of
 * the moving time. That is the least error; with few draws it is the whole error.
 */
#ifndef SAMPLE_PRECISION_H
#define SAMPLE_PRECISION_H

#include "sample/buckets.h"

/* The tally of one bucket. */
struct tally {
	double delta;          /* in this tick: goroutines that came, less those that left */
	double net;            /* in this pass */
	double squares;        /* of this pass's deltas */
	double past_squares;   /* of all later passes, as variances of one sample */
	double variance;       /* in ns^2 */
	double first;          /* goroutines in the first pass */
	double first_squares;  /* of these, by tick */
	double first_products; /* of these and of all goroutines in the tick */
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

	double tick_looks; /* of goroutines that are new, or ran since the last sample */
	double pass_looks;
	size_t pass_ticks;
	size_t passes;
	size_t ticks;
	size_t moving_ticks; /* in later passes than the first, with samples */
	double moving_ns;    /* what those samples stand for */

	double first_ns; /* how long the first pass took */
	double first_looks;
	double first_looks_squares; /* a tick's */
	size_t first_ticks;
};

/* A goroutine was in bucket `before` in the last sample and is in bucket `now`; BUCKET_NONE: it did
 * not exist or does not count. Call it only for goroutines that ran in between. False: no memory.
 */
bool precision_look(struct precision *p, uint32_t before, uint32_t now) must_check;
/* The samples since the last call were taken at one moment. */
void precision_end_tick(struct precision *p);
/* All units were scanned; the samples stand for this time. */
void precision_end_pass(struct precision *p, double ns);
/* Only one in `scale` of the goroutines was sampled in this time. */
void precision_cut_pass(struct precision *p, double ns, double scale);

/* How many more goroutines were in the bucket in this pass than in the one before. */
double precision_net(const struct precision *p, uint32_t bucket);

/* Sets the variance and grain of each bucket, whose times are complete. */
void precision_finish(const struct precision *p, struct buckets *b);
/* The error of all stacks' shares together, with 95 % confidence. */
double precision_error(const struct precision *p, const struct buckets *b);
void precision_release(struct precision *p);

#endif
