/*
 * mheap_.allspans lists every mspan that the runtime ever made; it reuses them and frees none. The
 * array itself moves when it grows, and its old memory is unmapped then: a fault in it is tried
 * again with the new one.
 *
 * mspans lie close together in chunks of 16 KB, so they are read in the order of their addresses,
 * with what lies between them.
 */
#include "memory/heap_spans.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "golayout/view.h"
#include "target/read_plan.h"

#define TRIES 10
#define BATCH 8192 /* mspans that are planned together */
#define MOST_ADDRESS_BITS 48
#define MOST_SPANS (1ull << 25) /* of a page each they are 256 GB */

struct slice {
	uint64_t items, length, capacity;
};

struct reading {
	struct target *t;
	const struct golayout *lay;
	const atomic_int *cancel;
	size_t bytes; /* of an mspan that are read */
	uint64_t *addresses;
	size_t count;
	struct plan_piece *pieces;
	struct plan plan;
	uint8_t *buffer;
	size_t capacity; /* of buffer */
	struct heap_spans spans;
};

static void reading_release(struct reading *r)
{
	free(r->addresses);
	free(r->pieces);
	free(r->buffer);
	plan_release(&r->plan);
	heap_spans_release(&r->spans);
}

void heap_spans_release(struct heap_spans *spans)
{
	free(spans->items);
	*spans = (struct heap_spans){0};
}

static struct error *must_check corrupt(const char *what, uint64_t value)
{
	return error_format(ERROR_CORRUPT,
			    "the target's heap is corrupt: %s (0x%lx); take a core file and "
			    "report this",
			    what, value);
}

/* ---- the list ---- */

static struct error *must_check check_length(const struct reading *r, const struct slice *list)
{
	const struct target_core *core = target_core(r->t);
	uint64_t memory = core ? core->whole_size : target_memory(r->t);

	if (list->length > MOST_SPANS || list->length > list->capacity ||
	    list->length > memory / r->bytes)
		return corrupt("more spans than fit its memory", list->length);
	return NULL;
}

static struct error *must_check read_list_once(struct reading *r, uint64_t header)
{
	struct slice list;
	struct error *err = target_read(r->t, header, &list, sizeof(list));

	if (!err)
		err = check_length(r, &list);
	if (err)
		return err;
	free(r->addresses);
	r->count = list.length;
	r->addresses = calloc(r->count + 1, sizeof(*r->addresses));
	if (!r->addresses)
		return &error_no_memory;
	r->spans.structures = r->count;
	r->spans.list = list.items;
	r->spans.list_bytes = list.capacity * sizeof(uint64_t);
	return r->count ? target_read(r->t, list.items, r->addresses,
				      r->count * sizeof(*r->addresses))
			: NULL;
}

static struct error *must_check read_list(struct reading *r, uint64_t header)
{
	struct error *err = NULL;

	for (int i = 0; i < TRIES; i++) {
		err = read_list_once(r, header);
		if (!err || err->code != ERROR_FAULT)
			break;
	}
	return err && err->code == ERROR_FAULT ? corrupt("its list of spans is unreadable", header)
					       : err;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* In order, each once. */
static void sort_list(struct reading *r)
{
	size_t n = 0;

	if (r->count)
		qsort(r->addresses, r->count, sizeof(*r->addresses), by_address);
	for (size_t i = 0; i < r->count; i++)
		if (r->addresses[i] && (!n || r->addresses[i] != r->addresses[n - 1]))
			r->addresses[n++] = r->addresses[i];
	r->count = n;
}

/* ---- the spans ---- */

static bool makes_sense(const struct heap_span *s, uint64_t pages, uint64_t elements)
{
	uint64_t end = s->start + s->size;

	if (!pages || pages >> (MOST_ADDRESS_BITS - 13) || s->start % SPAN_PAGE || end < s->start ||
	    end >> MOST_ADDRESS_BITS)
		return false;
	if (s->element_size > s->size)
		return false;
	if (s->state == SPAN_MANUAL)
		return true;
	return s->element_size && elements && elements <= UINT16_MAX &&
	       elements <= s->size / s->element_size && s->allocated <= elements;
}

static struct error *must_check add_span(struct reading *r, uint64_t address, const uint8_t *bytes)
{
	const struct span_view v = {&r->lay->n, bytes};
	uint64_t pages = span_view_pages(v), elements = span_view_elements(v);
	const struct heap_span s = {
		.address = address,
		.start = span_view_start(v),
		.size = pages * SPAN_PAGE,
		.element_size = span_view_element_size(v),
		.alloc_bits = span_view_alloc_bits(v),
		.mark_bits = span_view_mark_bits(v),
		.specials = span_view_specials(v),
		.large_type = span_view_large_type(v),
		.sweepgen = span_view_sweepgen(v),
		.elements = elements,
		.free_index = span_view_free_index(v),
		.allocated = span_view_alloc_count(v),
		.size_class = span_view_class(v) >> 1,
		.has_pointers = !(span_view_class(v) & 1),
		.state = span_view_state(v),
	};

	if (s.state != SPAN_IN_USE && s.state != SPAN_MANUAL)
		return NULL;
	if (!makes_sense(&s, pages, elements)) {
		r->spans.changed++;
		return NULL;
	}
	if (!array_reserve(&r->spans.items, &r->spans.capacity, r->spans.count + 1))
		return &error_no_memory;
	r->spans.items[r->spans.count++] = s;
	return NULL;
}

/* One that the plan could not read. */
static struct error *must_check add_alone(struct reading *r, uint64_t address)
{
	uint8_t bytes[GOLAYOUT_SPAN_LIMIT];
	struct error *err = target_read(r->t, address, bytes, r->bytes);

	if (!err)
		return add_span(r, address, bytes);
	if (err->code != ERROR_FAULT)
		return err;
	r->spans.changed++;
	return NULL;
}

static struct error *must_check read_batch(struct reading *r, const uint64_t *addresses,
					   size_t count)
{
	size_t got = 0;
	struct error *err;

	plan_reset(&r->plan);
	for (size_t i = 0; i < count; i++) {
		r->pieces[i] = (struct plan_piece){addresses[i], r->bytes, 0};
		if (!plan_merge(&r->plan, &r->pieces[i], 0))
			return &error_no_memory;
	}
	if (!array_reserve(&r->buffer, &r->capacity, r->plan.bytes))
		return &error_no_memory;
	err = plan_read(&r->plan, r->t, r->buffer, &got);
	for (size_t i = 0; !err && i < count; i++) {
		const struct plan_piece *p = &r->pieces[i];

		err = p->offset + p->size <= got ? add_span(r, p->address, r->buffer + p->offset)
						 : add_alone(r, p->address);
	}
	return err ? err : cancel_check(r->cancel);
}

static int by_start(const void *a, const void *b)
{
	const struct heap_span *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Of two that share pages, one was read before these changed hands. */
static void drop_overlaps(struct heap_spans *spans)
{
	size_t n = 0;

	if (spans->count)
		qsort(spans->items, spans->count, sizeof(*spans->items), by_start);
	for (size_t i = 0; i < spans->count; i++) {
		const struct heap_span *last = n ? &spans->items[n - 1] : NULL;

		if (last && spans->items[i].start < last->start + last->size)
			spans->changed++;
		else
			spans->items[n++] = spans->items[i];
	}
	spans->count = n;
}

static struct error *must_check read_spans(struct reading *r, const struct memory_variables *v)
{
	const struct golayout_numbers *n = &r->lay->n;
	struct error *err = target_read_u32(r->t, heap_at_sweepgen(n, v->heap), &r->spans.sweepgen);

	r->pieces = calloc(BATCH, sizeof(*r->pieces));
	if (!err && !r->pieces)
		err = &error_no_memory;
	if (!err)
		err = read_list(r, heap_at_all_spans(n, v->heap));
	if (err)
		return err;
	sort_list(r);
	for (size_t i = 0; !err && i < r->count; i += BATCH)
		err = read_batch(r, r->addresses + i, r->count - i < BATCH ? r->count - i : BATCH);
	drop_overlaps(&r->spans);
	return err;
}

struct error *heap_spans_read(struct target *t, const struct golayout *lay,
			      const struct memory_variables *v, const atomic_int *cancel,
			      struct heap_spans *ret)
{
	struct reading r = {.t = t,
			    .lay = lay,
			    .cancel = cancel,
			    .bytes = golayout_span_bytes(&lay->n)};
	struct error *err = read_spans(&r, v);

	if (!err) {
		*ret = r.spans;
		r.spans = (struct heap_spans){0};
	}
	reading_release(&r);
	return err;
}

const struct heap_span *heap_spans_find(const struct heap_spans *spans, uint64_t address)
{
	size_t lo = 0, hi = spans->count;
	const struct heap_span *s;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (spans->items[mid].start <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	s = lo ? &spans->items[lo - 1] : NULL;
	return s && address - s->start < s->size ? s : NULL;
}
