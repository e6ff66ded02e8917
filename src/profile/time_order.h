/*
 * The samples of a profile in the order of their time, for formats that are a list of samples. A
 * piece is the part of a sample in one column of the timeline. The pieces of a sample add up to it
 * exactly.
 *
 * Each piece is written with its stack, so their number is limited: columns are joined until the
 * limit holds. Without a timeline, a sample is one piece in column 0. So is a sample without time
 * in the timeline.
 */
#ifndef PROFILE_TIME_ORDER_H
#define PROFILE_TIME_ORDER_H

#include "profile/profile.h"

struct time_piece {
	uint32_t column;
	uint32_t row;   /* the sample's index */
	uint64_t value; /* ns of wall time; a count in a profile without time */
};

struct time_order {
	struct time_piece *pieces; /* by column, then by row */
	size_t count;
	size_t capacity;
	uint64_t width_ns; /* of a column; 0: times are not known */
	bool timed;        /* values are ns */
};

struct error *time_order_make(const struct profile *p, struct time_order *ret) must_check;
void time_order_release(struct time_order *order);
#define _cleanup_time_order_ __attribute__((cleanup(time_order_release)))

#endif
