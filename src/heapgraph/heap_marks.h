/*
 * Which objects of a heap are reachable: a mark for each, set from roots that the caller names, in
 * any order. Memory: two bits for each object.
 *
 * Objects are visited a span at a time: a span waits in the queue until the objects that were found
 * in it are read with one call. So a heap is read in large pieces, most of it once.
 *
 * An object that was allocated after the spans were read is in none of them. heap_marks_refresh()
 * reads the spans again and follows the words that led nowhere.
 */
#ifndef HEAPGRAPH_HEAP_MARKS_H
#define HEAPGRAPH_HEAP_MARKS_H

#include <stdatomic.h>

#include "heapgraph/heap_objects.h"
#include "heapgraph/heap_stacks.h"

struct heap_marks;

struct heap_marks_options {
	/* The objects that are marked, but whose pointers are not followed. `bytes` as in struct
	 * heap_choice. NULL: none. */
	bool (*opaque)(void *arg, struct heap_object object, const uint8_t *bytes, size_t size);
	void *arg;
	const atomic_int *stop; /* ERROR_STOPPED once it is not 0; NULL: never */
};

struct error *heap_marks_open(struct target *t, const struct image *img, const struct golayout *lay,
			      const struct heap_marks_options *options,
			      struct heap_marks **ret) must_check;
void heap_marks_close(struct heap_marks *m);

/* Roots. What they lead to is marked by the next heap_marks_drain(). */
void heap_marks_add(struct heap_marks *m, uint64_t address);
/* Global variables, of plugins too. */
struct error *heap_marks_add_globals(struct heap_marks *m) must_check;
/* Finalizers, cleanups and weak pointers, and what finalizers will be given. */
struct error *heap_marks_add_specials(struct heap_marks *m) must_check;
/* The stack of a goroutine, and its g. */
struct error *heap_marks_add_goroutine(struct heap_marks *m, uint64_t g,
				       const struct heap_stack *stack) must_check;

/* Follows all pointers. */
struct error *heap_marks_drain(struct heap_marks *m) must_check;

/* From the first call on, the marks that are set later can be taken back: all since a place that
 * this returned. Not across heap_marks_refresh(). */
size_t heap_marks_place(struct heap_marks *m);
void heap_marks_take_back(struct heap_marks *m, size_t place);

/* Reads the spans again, and adds as roots what led to none before. *ret_more: there is such. */
struct error *heap_marks_refresh(struct heap_marks *m, bool *ret_more) must_check;

enum heap_mark { HEAP_NO_OBJECT, HEAP_UNMARKED, HEAP_MARKED };
/* What is known of the object that holds this address. */
enum heap_mark heap_marks_of(struct heap_marks *m, uint64_t address);

/* Bytes of the marked objects. */
uint64_t heap_marks_bytes(const struct heap_marks *m);

struct heap_marks_info {
	uint64_t spans;
	uint64_t heap_bytes;   /* of spans with objects */
	uint64_t marked;       /* objects */
	uint64_t marked_bytes; /* of them */
	uint64_t unread;       /* bytes that could not be read: 0 in a live process */
	uint64_t refused;      /* spans that make no sense */
};
const struct heap_marks_info *heap_marks_info(struct heap_marks *m);

static inline void cleanup_heap_marks(struct heap_marks **m)
{
	heap_marks_close(*m);
}
#define _cleanup_heap_marks_ __attribute__((cleanup(cleanup_heap_marks)))

#endif
