#include "requests/summary.h"

#include <stdlib.h>

#include "base/array.h"

static struct summary_row *row_of(struct summary *s, uint32_t start)
{
	uint64_t *place = map_at(&s->starts, start);

	if (!place)
		return NULL;
	if (!*place) {
		if (!array_reserve(&s->rows, &s->capacity, s->count + 1))
			return NULL;
		s->rows[s->count] = (struct summary_row){.start = start};
		*place = ++s->count;
	}
	return &s->rows[*place - 1];
}

static bool add_reason(struct summary *s, struct summary_row *row, const struct span *span)
{
	uint64_t *place = map_at(&s->reasons, (uint64_t)(row - s->rows) << 32 | span->reason);
	struct summary_reason *reason;

	if (!place)
		return false;
	if (!*place) {
		if (!array_reserve(&row->reasons, &row->reason_capacity, row->reason_count + 1))
			return false;
		row->reasons[row->reason_count] =
			(struct summary_reason){.reason = span->reason,
						.number = s->reason_count++};
		*place = ++row->reason_count;
	}
	reason = &row->reasons[*place - 1];
	reason->ns += span->end - span->begin;
	if (span->waited_ns > reason->waited_ns)
		reason->waited_ns = span->waited_ns;
	s->wakers.by_stack = true;
	return !span->ended.is_known ||
	       wakers_add(&s->wakers, &(struct waker){.place = reason->number,
						      .stack = span->ended.stack,
						      .g = span->ended.goroutine,
						      .ns = span->end - span->begin,
						      .count = 1});
}

/* Counts a goroutine once. */
static bool count_goroutine(struct summary *s, uint64_t g, struct summary_row *row)
{
	uint64_t *place = map_at(&s->goroutines, g), now = row - s->rows + 1;

	if (!place)
		return false;
	if (*place == now)
		return true;
	if (*place)
		s->rows[*place - 1].goroutines--;
	row->goroutines++;
	*place = now;
	return true;
}

struct error *summary_add(struct summary *s, const struct span *span)
{
	struct summary_row *row = row_of(s, span->start);
	uint64_t ns = span->end - span->begin;

	if (!row || !count_goroutine(s, span->g, row))
		return &error_no_memory;
	row->ns[span->state] += ns;
	row->total_ns += ns;
	if (span->state == TRACE_WAITING && !add_reason(s, row, span))
		return &error_no_memory;
	return NULL;
}

static int by_time(const void *a, const void *b)
{
	const struct summary_row *x = a, *y = b;

	/* An unknown start function comes last. */
	if (!x->start != !y->start)
		return !x->start - !y->start;
	return x->total_ns < y->total_ns ? 1 : x->total_ns > y->total_ns ? -1 : 0;
}

static int by_reason_time(const void *a, const void *b)
{
	const struct summary_reason *x = a, *y = b;

	return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : 0;
}

void summary_complete(struct summary *s)
{
	map_release(&s->reasons);
	map_release(&s->starts);
	map_release(&s->goroutines);
	wakers_complete(&s->wakers);
	for (size_t i = 0; i < s->count; i++)
		if (s->rows[i].reason_count)
			qsort(s->rows[i].reasons, s->rows[i].reason_count,
			      sizeof(*s->rows[i].reasons), by_reason_time);
	if (s->count)
		qsort(s->rows, s->count, sizeof(*s->rows), by_time);
}

void summary_release(struct summary *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->rows[i].reasons);
	free(s->rows);
	map_release(&s->reasons);
	map_release(&s->starts);
	map_release(&s->goroutines);
	wakers_release(&s->wakers);
}
