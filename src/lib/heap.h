/* Fills profiles from what the Go runtime keeps; for heap.c. */
#ifndef LIB_HEAP_H
#define LIB_HEAP_H

#include "lib/target_handle.h"
#include "memory/runtime_buckets.h"
#include "profile/profile.h"

/* The types of values and their order, as runtime/pprof writes them. */
struct error *heap_begin(struct profile *p, enum bucket_kind kind) must_check;

/* Samples of memory, one for each bucket, scaled by the rate of sampling. `shown` is the first of
 * the two types that tables show: 0, allocated; 2, in use. */
struct error *heap_add_memory(struct profile *p, const struct gospect_target *t,
			      const struct runtime_buckets *b, int64_t rate,
			      size_t shown) must_check;

/* What was allocated between two looks at the same process. */
struct error *heap_add_growth(struct profile *p, const struct gospect_target *t,
			      const struct runtime_buckets *before,
			      const struct runtime_buckets *after, int64_t rate) must_check;

/* Samples of blocking or of mutexes, longest first. `scale`: what each event stands for. */
struct error *heap_add_blocking(struct profile *p, const struct gospect_target *t,
				const struct runtime_buckets *b, enum bucket_kind kind,
				int64_t scale, double ticks_per_ns) must_check;

/* The function table whose names have their type arguments, as runtime/pprof writes them: not
 * "[...]". */
struct pclntab heap_functions(const struct gospect_target *t);

/* The buckets of memory, as the runtime shows them, and runtime.MemProfileRate. */
struct error *heap_read_memory(const struct gospect_target *t, struct runtime_buckets *ret,
			       int64_t *ret_rate) must_check;
/* The buckets of blocking or of mutexes: none if nothing happened yet; their rate, and the ticks of
 * a nanosecond, which are 0 if there are no buckets. */
struct error *heap_read_blocking(struct gospect_target *t, enum bucket_kind kind,
				 struct runtime_buckets *ret, int64_t *ret_rate,
				 double *ret_ticks_per_ns) must_check;

/* As runtime/pprof names it. */
const char *heap_kind_name(uint32_t kind);

/* Goroutines and threads: count alone. `kind`: GOSPECT_GOROUTINE or GOSPECT_GOROUTINELEAK. */
struct error *heap_add_goroutines(struct profile *p, struct gospect_target *t, uint32_t kind,
				  struct profile_symbols **ret) must_check;
struct error *heap_add_threads(struct profile *p, const struct gospect_target *t) must_check;

/* Makes the counts of the samples the values of a profile of this type, most first. */
struct error *heap_finish_counts(struct profile *p, const char *type) must_check;

#endif
