/* Where the resident memory of a Go program is. */
#ifndef GOSPECT_FOOTPRINT_H
#define GOSPECT_FOOTPRINT_H

#include <gospect/snapshot.h>

GOSPECT_BEGIN

struct gospect_footprint_options {
	size_t size;       /* of this structure */
	uint32_t rows;     /* of text: list at most this many children of a part; 0: all */
	uint32_t reserved; /* 0 */
};

struct gospect_footprint;

/*
 * Divides the resident memory of the program by its use. The result is one tree that sums to the
 * resident set size: the heap by sizes of objects, stacks by function, the runtime's own
 * structures, the program's data, libraries and files. The target runs on and is not changed. Takes
 * half a second for 100,000 goroutines.
 *
 * A core file does not say what was resident: its tree sums to what the file holds.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_footprint_take(struct gospect_target *target,
		       const struct gospect_footprint_options *options,
		       struct gospect_footprint **ret);

/* Before the target is closed. Takes NULL as well. */
GOSPECT_API void gospect_footprint_destroy(struct gospect_footprint *footprint);

struct gospect_footprint_info {
	uint64_t resident_bytes; /* the root of the tree */
	uint64_t cgroup_bytes;   /* charged to its control group; 0: not known */
	uint64_t cgroup_limit;   /* UINT64_MAX: none */
	uint64_t heap_bytes;     /* the size that the collector compares with its goal */
	uint64_t heap_goal;      /* UINT64_MAX: none */
	uint64_t swapped_bytes;
	uint64_t goroutines;
};

/* Valid until it is destroyed. */
GOSPECT_API const struct gospect_footprint_info *
gospect_footprint_info(const struct gospect_footprint *footprint);

/* GOSPECT_TEXT, GOSPECT_JSON (its keys are in gospect-memory(1)), GOSPECT_HTML (a treemap),
 * GOSPECT_PPROF, GOSPECT_FOLDED or GOSPECT_SPEEDSCOPE. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_footprint_write(const struct gospect_footprint *footprint, enum gospect_format format,
			struct gospect_sink sink);

GOSPECT_END

#endif
