/* Findings from a profile's timeline: waits at regular intervals, and growth of the number of
 * goroutines. */
#ifndef PROFILE_RHYTHM_H
#define PROFILE_RHYTHM_H

#include "profile/places.h"

/* Periodic bursts of goroutines that block at one place, with few of them in between. */
struct rhythm {
	struct place place;
	uint64_t period_ns; /* median from the start of a burst to that of the next */
	uint64_t burst_ns;  /* median length of a burst */
	double goroutines;  /* mean number within bursts */
};

/* Finds the rhythm of the place with the most blocked time that has one. period_ns is 0: none. */
struct error *rhythm_find(const struct profile *p, const struct tally *tally,
			  struct rhythm *ret) must_check;

/* The mean number of goroutines in the first and the last tenth of the time; 0 without a timeline.
 */
struct error *rhythm_growth(const struct profile *p, double *ret_first,
			    double *ret_last) must_check;

#endif
