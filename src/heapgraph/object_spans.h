/*
 * The spans of a Go heap as ranges of objects: which object holds an address, and a number for each
 * object. memory/heap_spans.h reads them and leaves out what makes no sense. Here the number of
 * objects is bounded by the target's memory.
 */
#ifndef HEAPGRAPH_OBJECT_SPANS_H
#define HEAPGRAPH_OBJECT_SPANS_H

#include "base/map.h"
#include "golayout/view.h"
#include "memory/heap_spans.h"

#define HEAP_PAGE 8192u
#define HEAP_CHUNK_PAGES 8192u /* of 64 MB, as the runtime's arenas */

struct object_span {
	uint64_t start;
	uint64_t end;         /* of its pages */
	uint64_t object_size; /* 0: it has no objects; a goroutine's stack, for example */
	uint64_t first;       /* the number of its first object among all */
	uint64_t large_type;  /* Go 1.22 on: the type of a large object */
	uint64_t specials;    /* the first of its list; 0: none */
	uint32_t count;       /* of objects */
	uint8_t size_class;   /* 0: a large object */
	bool no_scan;         /* its objects have no pointers */
	bool is_queued;       /* the user's own */
};

struct object_spans {
	struct object_span *items; /* by address */
	size_t count;
	uint64_t objects;  /* in all */
	uint64_t bytes;    /* of spans with objects */
	size_t refused;    /* that make no sense */
	struct map chunks; /* chunk number -> its place in `pages` + 1 */
	uint32_t **pages;  /* of a chunk: for each page, the number of its span + 1 */
	size_t chunk_count;
	size_t chunk_capacity;
	uint64_t last_chunk; /* the last one that was found, and its pages */
	const uint32_t *last_pages;
};

/* As heap_spans_read(). */
struct error *object_spans_read(struct target *t, const struct golayout *lay,
				const struct memory_variables *v, const atomic_int *cancel,
				struct object_spans *ret) must_check;
void object_spans_release(struct object_spans *s);
#define _cleanup_object_spans_ __attribute__((cleanup(object_spans_release)))

/* Where the number of the span that holds this address is; NULL: none does. */
static inline const uint32_t *object_spans_page(struct object_spans *s, uint64_t address)
{
	uint64_t chunk = address / (HEAP_CHUNK_PAGES * HEAP_PAGE);

	if (chunk != s->last_chunk || !s->last_pages) {
		const uint64_t *place = map_find(&s->chunks, chunk);

		if (!place)
			return NULL;
		s->last_chunk = chunk;
		s->last_pages = s->pages[*place - 1];
	}
	return &s->last_pages[address / HEAP_PAGE % HEAP_CHUNK_PAGES];
}

/* The span that holds this address, or NULL. */
static inline struct object_span *object_spans_find(struct object_spans *s, uint64_t address)
{
	const uint32_t *page = object_spans_page(s, address);

	return page && *page ? &s->items[*page - 1] : NULL;
}

/* An object: its span, and its place in it. */
struct heap_object {
	struct object_span *span;
	uint32_t index;
};

static inline uint64_t heap_object_number(struct heap_object o)
{
	return o.span->first + o.index;
}

static inline uint64_t heap_object_address(struct heap_object o)
{
	return o.span->start + o.index * o.span->object_size;
}

/* The object that holds this address; false: none does. */
static inline bool object_spans_object(struct object_spans *s, uint64_t address,
				       struct heap_object *ret)
{
	struct object_span *span = object_spans_find(s, address);
	uint64_t offset, index;

	if (!span || !span->object_size)
		return false;
	offset = address - span->start;
	index = !(offset >> 32 | span->object_size >> 32)
			? (uint32_t)offset / (uint32_t)span->object_size
			: offset / span->object_size;
	*ret = (struct heap_object){span, (uint32_t)index};
	return index < span->count;
}

/* The first object of the span from `from` on, and then from its start on, whose bit is set in
 * `bits`, which has one for each object of all spans; span->count: none. */
uint32_t object_span_next(const struct object_span *span, const uint64_t *bits, uint32_t from);

/* The object with this number. */
struct heap_object object_spans_numbered(struct object_spans *s, uint64_t number);

#endif
