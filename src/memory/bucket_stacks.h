/*
 * A bucket's stack as words of a stack (image/pclntab.h), and what its samples stand for.
 *
 * Most of its stacks are expanded: an inlined call has a return address of its own, which is no
 * address of an instruction behind a call. Those of blocking and mutexes from Go 1.23 on are not.
 */
#ifndef MEMORY_BUCKET_STACKS_H
#define MEMORY_BUCKET_STACKS_H

#include "image/pclntab.h"

/*
 * Room for `depth`; how many words there are. `hides_runtime`: without the runtime's functions
 * inside the first other one, as in heap profiles of Go 1.`minor` (protomem.go); if there is no
 * other one, with all of them.
 */
size_t bucket_stack_words(const struct pclntab *functions, const uint64_t *pcs, size_t depth,
			  bool hides_runtime, int minor, uint64_t *ret);

/* Scales sampled objects, with one sample in `rate` bytes on average (scaleHeapSample). */
void bucket_unsample(int64_t objects, int64_t bytes, int64_t rate, int64_t *ret_objects,
		     int64_t *ret_bytes);

#endif
