/* Findings from a profile's timeline: what happens at regular intervals, and growth. */
#ifndef PROFILE_RHYTHM_H
#define PROFILE_RHYTHM_H

#include "profile/places.h"

/* Goroutines that are blocked at one place again and again, and hardly in between. */
struct rhythm {
	struct place place;
	uint64_t period_ns; /* from the begin of one burst to the next, median */
	uint64_t burst_ns;  /* that one takes, median */
	double goroutines;  /* mean within bursts */
};

/* The one with most time; period_ns is 0 when there is none. */
struct error *rhythm_find(const struct profile *p, const struct tally *tally,
			  struct rhythm *ret) must_check;

/* Goroutines at the beginning and at the end, means over a tenth of the time; 0 without a timeline.
 */
struct error *rhythm_growth(const struct profile *p, double *ret_first,
			    double *ret_last) must_check;

#endif
