/*
 * The spans of the Go heap (runtime.mspan, mheap.go): runs of pages of 8 KB that hold objects of
 * one size, one large object, or stacks.
 *
 * The target runs on while they are read. A span that makes no sense, or that covers pages of
 * another one, changed meanwhile: it is left out and counted. Addresses, lengths and counts are
 * taken as hostile.
 */
#ifndef MEMORY_HEAP_SPANS_H
#define MEMORY_HEAP_SPANS_H

#include <stdatomic.h>

#include "golayout/memory_variables.h"

#define SPAN_PAGE 8192u

/* mspan.state */
enum span_state {
	SPAN_DEAD = 0,
	SPAN_IN_USE = 1, /* holds objects */
	SPAN_MANUAL = 2, /* holds stacks, or buffers of the collector */
};

struct heap_span {
	uint64_t address; /* of its mspan */
	uint64_t start;
	uint64_t size;         /* of all its pages */
	uint64_t element_size; /* of an object or a stack; 0: buffers of the collector */
	uint64_t alloc_bits; /* addresses of bitmaps: objects that were alive at the last sweep, */
	uint64_t mark_bits;  /* and that the current or the last collection has marked */
	uint64_t specials;   /* the first of its runtime.special, by offset; 0: none */
	uint64_t large_type; /* of a large object's type (Go 1.22 on); 0: none */
	uint32_t sweepgen;
	uint16_t elements; /* objects that fit; of a manual span, 0 */
	uint16_t free_index;
	uint16_t allocated; /* objects that are allocated, garbage that is not swept among them */
	uint8_t size_class; /* 0: a large object */
	bool has_pointers;
	enum span_state state;
};

/* Whether the span waits for a sweep: until then, objects without a mark are garbage. */
static inline bool span_is_unswept(const struct heap_span *s, uint32_t sweepgen)
{
	return s->state == SPAN_IN_USE &&
	       (s->sweepgen == sweepgen - 2 || s->sweepgen == sweepgen - 1 ||
		s->sweepgen == sweepgen + 1);
}

struct heap_spans {
	struct heap_span *items; /* those in use and manual ones, by address; none overlap */
	size_t count;
	size_t capacity;
	size_t structures;   /* mspans that there are, dead ones too */
	size_t changed;      /* left out: they changed while they were read */
	uint64_t list;       /* the runtime's array of their addresses, and */
	uint64_t list_bytes; /* its bytes */
	uint32_t sweepgen;   /* of the heap */
};

/* ERROR_CORRUPT: the list is nonsense. `cancel` may be NULL. */
struct error *heap_spans_read(struct target *t, const struct golayout *lay,
			      const struct memory_variables *v, const atomic_int *cancel,
			      struct heap_spans *ret) must_check;
void heap_spans_release(struct heap_spans *spans);
#define _cleanup_heap_spans_ __attribute__((cleanup(heap_spans_release)))

/* The span whose pages hold the address; NULL: none. */
const struct heap_span *heap_spans_find(const struct heap_spans *spans, uint64_t address);

#endif
