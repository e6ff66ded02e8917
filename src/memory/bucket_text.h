/*
 * The text that runtime/pprof writes of the runtime's profiles with debug=1 (pprof.go): the same
 * counters, which are not scaled, the same addresses, and a line for each frame.
 */
#ifndef MEMORY_BUCKET_TEXT_H
#define MEMORY_BUCKET_TEXT_H

#include <stdio.h>

#include "image/pclntab.h"
#include "memory/runtime_buckets.h"

struct bucket_text {
	const struct pclntab *functions;
	int minor; /* of the target's Go */
	FILE *out;
};

/* " 0x47d1f2 0x46e0a1", a newline, a line for each frame, and an empty line. The stack is expanded:
 * an inlined call has a return address of its own. `all`: also the runtime's functions inside the
 * first other one. */
struct error *bucket_text_stack(const struct bucket_text *text, const uint64_t *pcs, size_t depth,
				bool all) must_check;

/* Only the lines of frames. */
struct error *bucket_text_frames(const struct bucket_text *text, const uint64_t *pcs, size_t depth,
				 bool all) must_check;

/* One return address for each call of these, inlined or not; wrappers have none. Extends *ret. */
struct error *bucket_text_expand(const struct pclntab *functions, const uint64_t *pcs, size_t depth,
				 uint64_t **ret, size_t *ret_capacity,
				 size_t *ret_count) must_check;

/* Objects in use and allocated, most bytes in use first. `rate`: runtime.MemProfileRate. */
struct error *bucket_text_heap(const struct bucket_text *text, const struct runtime_buckets *b,
			       int64_t rate) must_check;

/* Blocking, or mutexes if `mutex_rate` is not negative; longest first. */
struct error *bucket_text_blocking(const struct bucket_text *text, const struct runtime_buckets *b,
				   int64_t mutex_rate, int64_t ticks_per_second) must_check;

#endif
