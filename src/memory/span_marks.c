/*
 * Marks are in a bitmap outside the span. With the collector called Green Tea (Go 1.26, and an
 * experiment before), spans of one page with small objects that hold pointers have them at their
 * end: 128 bytes, of which the second half are the marks, until the span is swept
 * (mgcmark_greenteagc.go: spanInlineMarkBits). The arena says which pages have those.
 */
#include "memory/span_marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "golayout/view.h"

#define MOST_OBJECTS 1024 /* of a span with marks: of 8 bytes in a page */
#define INLINE_MARKS 64   /* bytes at the end of the page; the last one is no mark */
#define ARENA_BYTES (64ull << 20)

struct bits {
	uint8_t bytes[MOST_OBJECTS / 8];
};

struct marks {
	const struct golayout *lay;
	const struct heap_spans *spans;
	size_t *places; /* of unswept spans */
	size_t count;
	size_t capacity;
	struct target_range *ranges;
	struct bits *bits;
	uint8_t *flags; /* of its page: one bit says that its marks are inline */
	bool *ok;
};

static void marks_release(struct marks *m)
{
	free(m->places);
	free(m->ranges);
	free(m->bits);
	free(m->flags);
	free(m->ok);
}

static struct error *must_check find_unswept(struct marks *m)
{
	const struct heap_spans *spans = m->spans;

	for (size_t i = 0; i < spans->count; i++) {
		if (!span_is_unswept(&spans->items[i], spans->sweepgen) ||
		    spans->items[i].elements > MOST_OBJECTS)
			continue;
		if (!array_reserve(&m->places, &m->capacity, m->count + 1))
			return &error_no_memory;
		m->places[m->count++] = i;
	}
	m->ranges = calloc(m->count + 1, sizeof(*m->ranges));
	m->bits = calloc(m->count + 1, sizeof(*m->bits));
	m->flags = calloc(m->count + 1, sizeof(*m->flags));
	m->ok = calloc(m->count + 1, sizeof(*m->ok));
	return m->ranges && m->bits && m->flags && m->ok ? NULL : &error_no_memory;
}

static const struct heap_span *span_at(const struct marks *m, size_t i)
{
	return &m->spans->items[m->places[i]];
}

static const struct memory_range *arena_of(const struct runtime_memory *memory, uint64_t address)
{
	size_t lo = 0, hi = memory->range_count;
	const struct memory_range *r;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (memory->ranges[mid].start <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	r = lo ? &memory->ranges[lo - 1] : NULL;
	return r && r->kind == MEMORY_ARENA && address < r->end ? r : NULL;
}

/* The byte of the arena's bitmap with this span's first page; 0: there is none. */
static uint64_t flag_address(const struct marks *m, const struct runtime_memory *memory,
			     const struct heap_span *s)
{
	const struct memory_range *arena = arena_of(memory, s->start);
	uint64_t bitmap =
		arena && arena->metadata ? arena_at_inline_marks(&m->lay->n, arena->metadata) : 0;

	return bitmap ? bitmap + s->start % ARENA_BYTES / SPAN_PAGE / 8 : 0;
}

static struct error *must_check read_flags(struct marks *m, struct target *t,
					   const struct runtime_memory *memory)
{
	struct error *err;

	for (size_t i = 0; i < m->count; i++) {
		uint64_t address = flag_address(m, memory, span_at(m, i));

		m->ranges[i] = (struct target_range){address, address ? 1 : 0, &m->flags[i]};
	}
	err = target_read_each(t, m->ranges, m->count, m->ok);
	for (size_t i = 0; !err && i < m->count; i++)
		if (!m->ok[i])
			m->flags[i] = 0;
	return err;
}

static bool is_inline(const struct marks *m, size_t i)
{
	const struct heap_span *s = span_at(m, i);

	return s->size == SPAN_PAGE && m->flags[i] >> s->start / SPAN_PAGE % 8 & 1;
}

static struct error *must_check read_bits(struct marks *m, struct target *t)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct heap_span *s = span_at(m, i);
		size_t size = (s->elements + 7u) / 8;

		if (is_inline(m, i) && size <= INLINE_MARKS)
			m->ranges[i].address = s->start + s->size - INLINE_MARKS;
		else
			m->ranges[i].address = s->mark_bits;
		m->ranges[i].size = size;
		m->ranges[i].buffer = &m->bits[i];
	}
	return target_read_each(t, m->ranges, m->count, m->ok);
}

static uint16_t garbage_in(const struct heap_span *s, const struct bits *bits)
{
	uint32_t marked = 0;

	for (size_t i = 0; i < s->elements; i++)
		marked += bits->bytes[i / 8] >> i % 8 & 1;
	return marked < s->allocated ? s->allocated - marked : 0;
}

struct error *span_garbage_count(struct target *t, const struct golayout *lay,
				 const struct heap_spans *spans,
				 const struct runtime_memory *memory, uint16_t *ret_garbage)
{
	struct marks m = {.lay = lay, .spans = spans};
	struct error *err = find_unswept(&m);

	memset(ret_garbage, 0, spans->count * sizeof(*ret_garbage));
	if (!err)
		err = read_flags(&m, t, memory);
	if (!err)
		err = read_bits(&m, t);
	for (size_t i = 0; !err && i < m.count; i++)
		if (m.ok[i])
			ret_garbage[m.places[i]] = garbage_in(span_at(&m, i), &m.bits[i]);
	marks_release(&m);
	return err;
}
