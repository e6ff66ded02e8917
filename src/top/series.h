/* The last minute of single rows, for the graphs beside them. */
#ifndef TOP_SERIES_H
#define TOP_SERIES_H

#include "top/rows.h"

struct top_series {
	double (*rows)[TOP_INTERVALS]; /* by row from `first` on, and by interval: the newest is 0
					*/
	size_t first, count;
	size_t intervals;
	/* Its own. */
	size_t capacity;
	uint32_t *shown; /* by name: the row, + 1 */
	size_t shown_capacity;
	struct top_key_rows *keys; /* by key */
	size_t key_capacity;
	uint32_t *lists; /* the rows that keys count in */
	size_t list_count, list_capacity;
};

/*
 * Goroutines of each row in each interval, in the state by which the rows are sorted: running for
 * self time, all of them where the order has no state. There are none of single goroutines.
 */
struct error *top_series_make(struct top_series *s, struct top_rows *r, size_t first,
			      size_t count) must_check;
void top_series_release(struct top_series *s);

#endif
