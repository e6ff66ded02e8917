/*
 * The roots of a heap that belong to no goroutine (runtime/mgcmark.go: markroot): global variables,
 * and what is attached to objects: finalizers, cleanups, weak pointers.
 */
#ifndef HEAPGRAPH_HEAP_ROOTS_H
#define HEAPGRAPH_HEAP_ROOTS_H

#include "heapgraph/heap_objects.h"

/* Words of global variables that are pointers: of the program and of its plugins. */
struct error *heap_globals_visit(struct target *t, const struct image *img,
				 const struct golayout *lay,
				 const struct heap_visit *visit) must_check;

/* What is attached to objects. */
struct heap_specials_visit {
	struct heap_visit visit; /* words of finalizers, cleanups and weak pointers */
	/* Called for each object whose finalizer will be given all that it refers to. */
	void (*kept)(void *arg, struct heap_object object);
	/* NULL, or called for each object that is a sample of the runtime's heap profile, with the
	 * address of its bucket. */
	void (*sampled)(void *arg, struct heap_object object, uint64_t bucket);
};

struct error *heap_specials_visit(struct target *t, const struct golayout *lay,
				  struct object_spans *spans,
				  const struct heap_specials_visit *visit) must_check;

/* Words of the finalizers and cleanups that wait to be run (heap_queues.c). */
struct error *heap_queues_visit(struct target *t, const struct image *img,
				const struct heap_visit *visit) must_check;

#endif
