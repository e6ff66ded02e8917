/* Stacks and labels as the library gives them out. They live in an arena (lib/given.h); NULL
 * everywhere says that there is no memory. */
#ifndef LIB_STACK_H
#define LIB_STACK_H

#include <gospect/target.h>

#include "image/pclntab.h"
#include "labels/label_sets.h"
#include "lib/given.h"

/* With room for `count` frames. */
struct gospect_stack *stack_create(struct arena *arena, size_t count);
/* To fill it in. */
struct gospect_frame *stack_frame(struct gospect_stack *stack, size_t i);

static inline struct gospect_frame frame_of(const struct go_frame *frame, uint64_t pc)
{
	return (struct gospect_frame){.pc = pc,
				      .entry = frame->entry,
				      .function = frame->function,
				      .file = frame->file,
				      .line = frame->line,
				      .is_inlined = frame->inlined};
}

/* The labels of a set; their strings stay those of `sets`. */
const struct gospect_label *labels_of(struct arena *arena, const struct label_sets *sets,
				      uint32_t id, uint32_t *ret_count);

#endif
