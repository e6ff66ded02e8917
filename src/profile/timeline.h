/*
 * The distribution of a profile over time: a row for each sample, and its time in columns of equal
 * width. Memory is bounded: columns are 10 ms wide at first, and their width doubles when there are
 * too many columns or cells.
 *
 * A cell holds the difference to the column before it. So a constant rate over many columns takes
 * no more cells than over one.
 */
#ifndef PROFILE_TIMELINE_H
#define PROFILE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"

/* The initial width of a column: 10 ms. */
#define TIMELINE_WIDTH_NS 10000000u
/* With this limit an hour has columns of 640 ms. */
#define TIMELINE_MOST_COLUMNS 6000u
/* They take at most 32 MB, and 48 MB while the map grows. */
#define TIMELINE_MOST_CELLS (1u << 20)
#define TIMELINE_NO_ROW UINT32_MAX

struct timeline {
	uint64_t width_ns; /* 0: empty */
	uint32_t columns;  /* up to the last column with time */
	struct map cells;  /* row and column -> difference, int64_t */
};

/* Adds `ns` to a row, evenly from `begin` to `end`, in ns since the profile began. With several
 * goroutines `ns` is more than `end` - `begin`. Times from 2^62 ns on are left out. */
struct error *timeline_add(struct timeline *t, uint32_t row, uint64_t begin, uint64_t end,
			   uint64_t ns) must_check;

/* Adds another timeline: its row i to row rows[i], or to none for TIMELINE_NO_ROW. Widens the
 * columns of one of them, so that both have the same width. */
struct error *timeline_add_all(struct timeline *t, struct timeline *from, const uint32_t *rows,
			       size_t count) must_check;

/* From this column up to the row's next step, each column of the row has this time. */
struct timeline_step {
	uint32_t row;
	uint32_t column;
	uint64_t ns;
};

/* Returns all steps, by row and then by column. The last step of a row has ns 0. The caller frees
 * them. */
struct error *timeline_steps(const struct timeline *t, struct timeline_step **ret,
			     size_t *ret_count) must_check;

/* How many these are. */
size_t timeline_step_count(const struct timeline *t);

/* The reverse, for `rows` rows and columns of this width. Takes steps of a damaged file: those that
 * make no sense are left out. */
struct error *timeline_add_steps(struct timeline *t, uint64_t width_ns,
				 const struct timeline_step *steps, size_t count,
				 size_t rows) must_check;

/* Adds a timeline that began so much later, to the next column: its row i to row first + i. */
struct error *timeline_add_later(struct timeline *t, const struct timeline *from, uint32_t first,
				 uint64_t later_ns) must_check;

void timeline_release(struct timeline *t);
#define _cleanup_timeline_ __attribute__((cleanup(timeline_release)))

#endif
