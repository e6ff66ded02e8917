/* The last minute of rows, for the graphs beside them. */
#ifndef TOP_SERIES_H
#define TOP_SERIES_H

#include "top/rows.h"

struct top_series {
	double (*rows)[TOP_INTERVALS]; /* by row from `first` on, and by interval: 0 is the newest
					*/
	size_t first, count;
	size_t intervals;
	/* Private. */
	size_t capacity;
	uint32_t *shown; /* by name: the row + 1 */
	size_t shown_capacity;
	struct top_key_rows *keys; /* by key */
	size_t key_capacity;
	uint32_t *lists; /* the rows in which keys count */
	size_t list_count, list_capacity;
};

/*
 * The goroutines of each row in each interval, in the state by which rows are sorted: running for
 * self time; all states if the sort key has none. Rows of single goroutines have no series.
 */
struct error *top_series_make(struct top_series *s, struct top_rows *r, size_t first,
			      size_t count) must_check;
void top_series_release(struct top_series *s);

#endif
