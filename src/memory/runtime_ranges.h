/* Where the runtime's structures outside the heap are; for runtime_memory.c. */
#ifndef MEMORY_RUNTIME_RANGES_H
#define MEMORY_RUNTIME_RANGES_H

#include "memory/runtime_memory.h"

/* buckhash: 179,999 pointers (mprof.go). */
#define BUCKET_TABLE_BYTES (179999u * 8)

/* Adds them to m->ranges, sorted. */
struct error *runtime_ranges_add(struct target *t, enum machine machine, const struct golayout *lay,
				 const struct memory_variables *v, const struct heap_spans *spans,
				 struct runtime_memory *m) must_check;

#endif
