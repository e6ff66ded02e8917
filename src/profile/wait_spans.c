#include "profile/wait_spans.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

#define MOST_SPANS (1u << 17)

static struct error *must_check add_step(struct wait_spans *spans, const struct timeline_step *step,
					 uint32_t end)
{
	struct wait_span *last = spans->count ? &spans->items[spans->count - 1] : NULL;
	double ns = (double)step->ns * (end - step->column);

	if (last && last->row == step->row && last->end == step->column) {
		last->end = end;
		last->ns += ns;
		return NULL;
	}
	if (!array_reserve(&spans->items, &spans->capacity, spans->count + 1))
		return &error_no_memory;
	spans->items[spans->count++] = (struct wait_span){step->column, end, step->row, ns};
	return NULL;
}

static int by_begin(const void *a, const void *b)
{
	const struct wait_span *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static int by_length(const void *a, const void *b)
{
	const struct wait_span *x = a, *y = b;
	uint32_t length_x = x->end - x->begin, length_y = y->end - y->begin;

	if (length_x != length_y)
		return length_x > length_y ? -1 : 1;
	return by_begin(a, b);
}

static void sort(struct wait_spans *spans)
{
	if (spans->count > MOST_SPANS) {
		qsort(spans->items, spans->count, sizeof(*spans->items), by_length);
		spans->count = MOST_SPANS;
	}
	if (spans->count)
		qsort(spans->items, spans->count, sizeof(*spans->items), by_begin);
}

struct error *wait_spans_find(const struct profile *p, struct wait_spans *ret)
{
	_cleanup_wait_spans_ struct wait_spans spans = {0};
	_cleanup_free_ struct timeline_step *steps = NULL;
	size_t count;
	struct error *err = timeline_steps(&p->timeline, &steps, &count);

	for (size_t i = 0; !err && i + 1 < count; i++)
		if (steps[i].ns && steps[i].row == steps[i + 1].row && steps[i].row < p->count &&
		    p->samples[steps[i].row].state == PROFILE_WAITING)
			err = add_step(&spans, &steps[i], steps[i + 1].column);
	if (err)
		return err;
	sort(&spans);
	*ret = spans;
	spans = (struct wait_spans){0};
	return NULL;
}

void wait_spans_release(struct wait_spans *spans)
{
	free(spans->items);
	*spans = (struct wait_spans){0};
}
