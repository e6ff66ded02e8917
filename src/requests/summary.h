/* Sums the spans of each start function's goroutines. */
#ifndef REQUESTS_SUMMARY_H
#define REQUESTS_SUMMARY_H

#include "base/map.h"
#include "requests/spans.h"
#include "requests/wakers.h"

struct summary_reason {
	uint32_t reason; /* in the spans' texts */
	uint64_t ns;
	uint64_t waited_ns; /* the longest waited_ns of its spans */
	uint32_t number;    /* of all reasons of all rows: its place in the summary's wakers */
};

/* The goroutines with one start function. */
struct summary_row {
	uint32_t start; /* in the spans' texts; 0: not known */
	uint64_t goroutines;
	uint64_t ns[TRACE_WAITING + 1]; /* by enum trace_status */
	uint64_t total_ns;
	struct summary_reason *reasons; /* of waiting, longest first */
	size_t reason_count;
	size_t reason_capacity;
};

struct summary {
	struct summary_row *rows; /* longest first, unknown start functions last, once complete */
	size_t count;
	size_t capacity;
	struct map reasons;    /* row << 32 | reason -> its index in the row + 1 */
	struct map starts;     /* start -> index in rows + 1 */
	struct map goroutines; /* those counted, each with its row + 1 */
	struct wakers wakers;  /* who ended waits, by stack */
	uint32_t reason_count;
};

struct error *summary_add(struct summary *s, const struct span *span) must_check;

/* Sorts the rows. */
void summary_complete(struct summary *s);

void summary_release(struct summary *s);
#define _cleanup_summary_ __attribute__((cleanup(summary_release)))

#endif
