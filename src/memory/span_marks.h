/*
 * How many objects of a span the last collection found alive, where that is still to be swept: the
 * others that count as allocated are garbage.
 */
#ifndef MEMORY_SPAN_MARKS_H
#define MEMORY_SPAN_MARKS_H

#include "memory/runtime_memory.h"

/* ret_garbage has room for spans->count: objects of each span that are garbage. 0 where the span
 * is swept, or cannot be read. */
struct error *span_garbage_count(struct target *t, const struct golayout *lay,
				 const struct heap_spans *spans, const struct runtime_memory *m,
				 uint16_t *ret_garbage) must_check;

#endif
