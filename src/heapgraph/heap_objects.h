/*
 * The pointers in the objects of a heap. Objects are read a span at a time, many spans in one call.
 *
 * Which words of an object are pointers, by Go version:
 *
 *   1.17 to 1.19   two bits a word in the runtime's heapArena: pointer, and more to come
 *   1.20, 1.21     one bit a word there, and one for each 64 words: no more pointers
 *   1.22 to 1.27   objects of up to 512 bytes: one bit a word at the end of their span (from Go
 *                  1.26 on before the 128 bytes of the collector's own marks); larger ones begin
 *                  with the address of their type; the type of those with a span of their own is
 *                  in the mspan
 *
 * Where that is not known (types whose mask is made on demand), each word
 * may be a pointer. Source: runtime/mbitmap.go.
 */
#ifndef HEAPGRAPH_HEAP_OBJECTS_H
#define HEAPGRAPH_HEAP_OBJECTS_H

#include "heapgraph/heap_types.h"
#include "heapgraph/object_spans.h"

/* Called for each word that is, or may be, a pointer. `slot` is its address. */
struct heap_visit {
	void (*word)(void *arg, uint64_t slot, uint64_t value);
	void *arg;
};

enum heap_layout { HEAP_TWO_BITS, HEAP_ONE_BIT, HEAP_IN_SPAN, HEAP_ANY_WORD };

struct heap_objects {
	struct target *t;
	const struct golayout *lay;
	uint64_t mheap;
	enum heap_layout layout;
	bool has_inline_marks; /* Go 1.26 on */
	uint64_t arena_offset; /* what is taken off an address to number its arena */
	struct heap_types types;
	struct map arenas; /* number of an arena -> address of its heapArena + 1 */
	uint8_t *buffer;
	uint64_t unread; /* bytes of objects that could not be read */
};

struct error *heap_objects_open(struct target *t, const struct image *img,
				const struct golayout *lay, uint64_t mheap,
				struct heap_objects *ret) must_check;
void heap_objects_release(struct heap_objects *o);

struct heap_choice {
	/* Asked for each object before its pointers are visited: false, it is left out. `bytes` are
	 * at most the first `size` of it. */
	bool (*wanted)(void *arg, struct heap_object object, const uint8_t *bytes, size_t size);
	void *arg;
	/* NULL, or a bit for each object of all spans: only those whose bit is set are asked for.
	 * wanted() clears it. Bits that are set meanwhile in the same span count, too: a list in a
	 * span is followed with one read of the span. */
	const uint64_t *pending;
};

/* The most spans of one call of heap_objects_visit(). */
#define HEAP_BATCH 256

/* Visits the pointers of the chosen objects of these spans. */
struct error *heap_objects_visit(struct heap_objects *o, struct object_span *const *spans,
				 size_t count, const struct heap_choice *choice,
				 const struct heap_visit *visit) must_check;

/* Visits the pointers of one object. */
struct error *heap_objects_visit_one(struct heap_objects *o, struct heap_object object,
				     const struct heap_visit *visit) must_check;

#endif
