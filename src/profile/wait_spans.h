/* When goroutines waited at one stack: for each waiting sample the times without a gap, by their
 * begin. If there are too many, the shortest are left out. */
#ifndef PROFILE_WAIT_SPANS_H
#define PROFILE_WAIT_SPANS_H

#include "profile/profile.h"

struct wait_span {
	uint32_t begin; /* columns of the profile's timeline */
	uint32_t end;
	uint32_t row; /* the sample's index */
	double ns;    /* of all goroutines together */
};

struct wait_spans {
	struct wait_span *items;
	size_t count;
	size_t capacity;
};

struct error *wait_spans_find(const struct profile *p, struct wait_spans *ret) must_check;
void wait_spans_release(struct wait_spans *spans);
#define _cleanup_wait_spans_ __attribute__((cleanup(wait_spans_release)))

#endif
