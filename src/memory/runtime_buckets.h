/*
 * The profiles that the Go runtime keeps by itself, in a list of buckets: one for each stack that
 * allocated objects of one size, blocked, or contended for a mutex (runtime/mprof.go).
 *
 * A bucket is never freed, its stack never changes, and new ones come to the front of the list, so
 * the target runs on while the list is walked. Its counters change meanwhile: runtime_buckets.c
 * says how they are read all the same. Addresses, lengths and counts are taken as hostile.
 */
#ifndef MEMORY_RUNTIME_BUCKETS_H
#define MEMORY_RUNTIME_BUCKETS_H

#include <stdatomic.h>

#include "golayout/heap_variables.h"

/* bucket.typ */
enum bucket_kind { BUCKET_MEMORY = 1, BUCKET_BLOCK = 2, BUCKET_MUTEX = 3 };

struct runtime_bucket {
	uint64_t address;
	uint64_t object_size; /* of memory */
	size_t first;         /* its stack in buckets->pcs, innermost first: return addresses */
	uint32_t depth;
	/* Of memory: what was sampled, not scaled. */
	uint64_t allocs, frees, alloc_bytes, free_bytes;
	/* Of blocking and mutexes. */
	double count;
	int64_t cycles;
};

struct runtime_buckets {
	struct runtime_bucket *items; /* as in the list, the newest first */
	size_t count;
	size_t capacity;
	uint64_t *pcs;
	size_t pc_count;
	size_t pc_capacity;
	/* Buckets whose two counters may not belong together: they changed at each of many looks,
	 * or the program was publishing its profile when its core was written. */
	size_t uncertain;
};

struct buckets_wanted {
	enum bucket_kind kind;
	/* Of memory: all that was allocated so far, not only what the runtime has published, which
	 * is the state at the end of the last collection but one. */
	bool up_to_now;
	const atomic_int *cancel; /* or NULL */
};

/* ERROR_CORRUPT: the list is nonsense. ERROR_FAILED: the profile changed at each look. */
struct error *runtime_buckets_read(struct target *t, const struct golayout *lay,
				   const struct heap_variables *v,
				   const struct buckets_wanted *wanted,
				   struct runtime_buckets *ret) must_check;
/* The innermost return addresses, at most `most`, of the bucket at this address; none if there is
 * no bucket of memory. */
struct error *runtime_bucket_stack(struct target *t, const struct golayout *lay, uint64_t address,
				   uint64_t *pcs, size_t most, size_t *ret_count) must_check;
void runtime_buckets_release(struct runtime_buckets *b);
#define _cleanup_runtime_buckets_ __attribute__((cleanup(runtime_buckets_release)))

#endif
