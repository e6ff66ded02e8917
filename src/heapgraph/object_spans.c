#include "heapgraph/object_spans.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

/* Of chunks of 64 MB that lie anywhere; more only if the target has the memory for it. */
#define ALWAYS_CHUNKS 4096u
/* Taken for a core file, whose memory is not known. */
#define UNKNOWN_MEMORY (1ull << 34)
/* Objects that the target's memory need not hold: a new span is not resident yet. */
#define ALWAYS_OBJECTS (1u << 20)

struct making {
	struct object_spans *spans;
	uint64_t memory;
};

static struct object_span span_of(const struct heap_span *s)
{
	struct object_span span = {.start = s->start, .end = s->start + s->size};
	uint64_t count = s->elements;

	if (s->state != SPAN_IN_USE || !s->element_size || s->element_size % 8 ||
	    s->element_size > s->size)
		return span;
	if (count > s->size / s->element_size)
		count = s->size / s->element_size;
	span.object_size = s->element_size;
	span.count = (uint32_t)count;
	span.large_type = s->large_type;
	span.specials = s->specials;
	span.size_class = s->size_class;
	span.no_scan = !s->has_pointers;
	return span;
}

static struct error *must_check chunk_at(struct making *m, uint64_t chunk, uint32_t **ret)
{
	struct object_spans *s = m->spans;
	uint64_t *place = map_at(&s->chunks, chunk);

	*ret = NULL;
	if (!place)
		return &error_no_memory;
	if (!*place) {
		if (s->chunk_count >= ALWAYS_CHUNKS + (m->memory >> 24)) {
			map_remove(&s->chunks, chunk);
			return NULL;
		}
		if (!array_reserve(&s->pages, &s->chunk_capacity, s->chunk_count + 1))
			return &error_no_memory;
		s->pages[s->chunk_count] = calloc(HEAP_CHUNK_PAGES, sizeof(uint32_t));
		if (!s->pages[s->chunk_count])
			return &error_no_memory;
		*place = ++s->chunk_count;
	}
	*ret = s->pages[*place - 1];
	return NULL;
}

static struct error *must_check enter_pages(struct making *m, size_t number)
{
	const struct object_span *span = &m->spans->items[number];

	for (uint64_t at = span->start; at < span->end;) {
		uint64_t page = at / HEAP_PAGE % HEAP_CHUNK_PAGES;
		uint64_t n = (span->end - at) / HEAP_PAGE;
		uint32_t *pages;
		struct error *err = chunk_at(m, at / HEAP_PAGE / HEAP_CHUNK_PAGES, &pages);

		if (err)
			return err;
		if (n > HEAP_CHUNK_PAGES - page)
			n = HEAP_CHUNK_PAGES - page;
		if (!pages || !n) {
			m->spans->refused++;
			return NULL;
		}
		for (uint64_t i = 0; i < n; i++)
			pages[page + i] = (uint32_t)number + 1;
		at += n * HEAP_PAGE;
	}
	return NULL;
}

static struct error *must_check make(struct making *m, const struct heap_spans *from)
{
	struct object_spans *s = m->spans;
	struct error *err = NULL;

	s->items = calloc(from->count + 1, sizeof(*s->items));
	if (!s->items)
		return &error_no_memory;
	s->refused = from->changed;
	for (size_t i = 0; i < from->count && !err; i++) {
		struct object_span span = span_of(&from->items[i]);

		if (span.count > m->memory / 8 + ALWAYS_OBJECTS - s->objects) {
			s->refused++;
			continue;
		}
		span.first = s->objects;
		s->objects += span.count;
		s->bytes += span.count * span.object_size;
		s->items[s->count] = span;
		err = enter_pages(m, s->count++);
	}
	return err;
}

struct error *object_spans_read(struct target *t, const struct golayout *lay,
				const struct memory_variables *v, const atomic_int *cancel,
				struct object_spans *ret)
{
	_cleanup_object_spans_ struct object_spans spans = {0};
	_cleanup_heap_spans_ struct heap_spans all = {0};
	struct making m = {&spans, target_memory(t)};
	struct error *err = heap_spans_read(t, lay, v, cancel, &all);

	if (m.memory == UINT64_MAX)
		m.memory = UNKNOWN_MEMORY;
	if (!err)
		err = make(&m, &all);
	if (err)
		return err;
	*ret = spans;
	spans = (struct object_spans){0};
	return NULL;
}

void object_spans_release(struct object_spans *s)
{
	for (size_t i = 0; i < s->chunk_count; i++)
		free(s->pages[i]);
	free(s->pages);
	free(s->items);
	map_release(&s->chunks);
	*s = (struct object_spans){0};
}

struct heap_object object_spans_numbered(struct object_spans *s, uint64_t number)
{
	size_t low = 0, high = s->count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (s->items[middle].first <= number)
			low = middle;
		else
			high = middle;
	}
	return (struct heap_object){&s->items[low], (uint32_t)(number - s->items[low].first)};
}

/* The first bit that is set from `from` on; `end`: none before that. */
static uint64_t next_bit(const uint64_t *bits, uint64_t from, uint64_t end)
{
	for (uint64_t i = from / 64; from < end; from = ++i * 64) {
		uint64_t word = bits[i] & ~0ull << from % 64;

		if (word) {
			from = i * 64 + (uint64_t)__builtin_ctzll(word);
			break;
		}
	}
	return from < end ? from : end;
}

uint32_t object_span_next(const struct object_span *span, const uint64_t *bits, uint32_t from)
{
	uint64_t first = span->first, end = first + span->count,
		 at = next_bit(bits, first + from, end);

	if (at == end) {
		at = next_bit(bits, first, first + from);
		at = at == first + from ? end : at;
	}
	return (uint32_t)(at - first);
}
