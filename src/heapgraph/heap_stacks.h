/*
 * The pointers on a goroutine's stack, as the collector finds them (runtime/mgcmark.go: scanstack):
 * the words that the function's stack maps name at this pc, and the variables on the stack that
 * these words lead to.
 *
 * Where the maps do not tell, each word may be a pointer: in a frame that a signal interrupted, in
 * assembly, in a frame that panicked, and on the whole stack of a goroutine that runs.
 */
#ifndef HEAPGRAPH_HEAP_STACKS_H
#define HEAPGRAPH_HEAP_STACKS_H

#include "heapgraph/heap_objects.h"
#include "unwind/frames.h"

struct heap_stack {
	uint64_t lo, hi; /* its bounds */
	uint64_t sp, pc, lr, fp;
	bool runs; /* sp and pc are not known */
	/* Words of the g that may point into the stack: deferred calls, a panic. */
	const uint64_t *from_g;
	size_t from_g_count;
};

/* Called before the words of a frame: the frame's stack word and CFA, 0 for words that belong to
 * none. */
struct heap_stack_visit {
	struct heap_visit visit;
	void (*frame)(void *arg, uint64_t word, uint64_t cfa); /* may be NULL */
};

/* The largest stack that is read; the words of larger ones are not visited. */
#define HEAP_MAX_STACK (64u << 20)

/* *ret_ok is false when the stack could not be read. */
struct error *heap_stack_visit(struct target *t, const struct image *img,
			       const struct heap_stack *stack, const struct heap_stack_visit *visit,
			       bool *ret_ok) must_check;

#endif
