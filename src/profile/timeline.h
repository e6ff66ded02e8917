/*
 * When the time of a profile's samples passed: for each row (a sample) its time in each column of
 * equal width. Memory is bounded: columns are 10 ms wide at first, and all become twice as wide
 * when there are too many of them, or of cells.
 *
 * Cells hold the difference to the column before, so that time that passes evenly over many columns
 * costs no more than over one.
 */
#ifndef PROFILE_TIMELINE_H
#define PROFILE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"

/* Of a column, initially: 10 ms. */
#define TIMELINE_WIDTH_NS 10000000u
/* An hour has columns of 640 ms. */
#define TIMELINE_MOST_COLUMNS 6000u
/* 32 MB at most, while the map grows 48. */
#define TIMELINE_MOST_CELLS (1u << 20)
#define TIMELINE_NO_ROW UINT32_MAX

struct timeline {
	uint64_t width_ns; /* 0: nothing was added */
	uint32_t columns;  /* up to the last that has time */
	struct map cells;  /* row and column -> difference, int64_t */
};

/* Time that passed evenly from `begin` to `end`, in ns since the profile began; `ns` of it, which
 * is more than that when several goroutines spent it. Samples that begin after 2^62 are left out.
 */
struct error *timeline_add(struct timeline *t, uint32_t row, uint64_t begin, uint64_t end,
			   uint64_t ns) must_check;

/* Adds what is in another one, whose row i is here rows[i], or TIMELINE_NO_ROW: none. Both have
 * columns of the same width then. */
struct error *timeline_add_all(struct timeline *t, struct timeline *from, const uint32_t *rows,
			       size_t count) must_check;

/* From this column on, up to the next step of the row, each column of the row has so much time. */
struct timeline_step {
	uint32_t row;
	uint32_t column;
	uint64_t ns;
};

/* All steps, by row and then by column; the caller frees them. The last step of a row has 0. */
struct error *timeline_steps(const struct timeline *t, struct timeline_step **ret,
			     size_t *ret_count) must_check;

void timeline_release(struct timeline *t);
#define _cleanup_timeline_ __attribute__((cleanup(timeline_release)))

#endif
