/* How the bytes of a target's mappings are divided; for the files of this room. */
#ifndef FOOTPRINT_DIVISION_H
#define FOOTPRINT_DIVISION_H

#include "footprint/footprint.h"
#include "memory/span_marks.h"

/* The use of one span's bytes by stacks. */
struct span_stacks {
	uint64_t frames;  /* of goroutines */
	uint64_t stacks;  /* of goroutines */
	uint64_t threads; /* of the runtime's threads */
};

struct thread_stack {
	uint64_t lo;
	uint64_t hi;
};

/* The frames of one function. */
struct function_frames {
	uint64_t entry;
	const char *name; /* the function table's */
	uint64_t bytes;
};

struct stack_use {
	struct span_stacks *spans; /* of each span */
	struct function_frames *functions;
	size_t function_count;
	size_t function_capacity;
	struct thread_stack *threads; /* that are in no span: the C library's */
	size_t thread_count;
	size_t thread_capacity;
};

/* All that the tree is made of. */
struct parts {
	struct target *t;
	const struct image *img;
	const struct golayout *lay;
	const atomic_int *cancel;
	struct heap_spans spans;
	struct runtime_memory memory;
	struct target_regions regions;
	struct stack_use stacks;
	uint16_t *garbage;            /* of each span: objects */
	uint64_t *resident;           /* of each span: bytes */
	uint64_t kinds[MEMORY_KINDS]; /* resident bytes of the runtime's tables; of arenas, those in
				       * no span */
	uint64_t bss, bss_end;
	struct footprint *f;
};

/* Reads the stacks, and what goroutines' functions use of them. Adds creators to the footprint. */
struct error *stack_use_read(struct parts *p, const struct unwinding *unwind) must_check;
void stack_use_release(struct stack_use *use);

/* Divides the regions: adds nodes for what is not the runtime's, fills resident and kinds. */
struct error *regions_divide(struct parts *p) must_check;

/* Adds nodes for the heap, stacks and the runtime. */
struct error *heap_divide(struct parts *p) must_check;

#endif
