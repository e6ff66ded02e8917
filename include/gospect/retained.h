/* The objects of the heap, what they retain, and the variables that hold them. */
#ifndef GOSPECT_RETAINED_H
#define GOSPECT_RETAINED_H

#include <gospect/snapshot.h>

GOSPECT_BEGIN

struct gospect_retained_options {
	size_t size;       /* of this structure */
	uint32_t rows;     /* of text: the largest number of rows of each table; 0: no limit */
	uint32_t reserved; /* 0 */
};

struct gospect_retained;

/*
 * Reads the whole heap as a graph: objects by type, what each retains, and which variables hold
 * them. An object retains itself and all objects that would be freed with it (those that it
 * dominates). The target runs on and is not changed, so the result is an estimate;
 * gospect_retained_info() has its error. The result of a core file is exact. Takes 1.1 s of CPU
 * time and 36 MB of memory for each million objects.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_retained_find(struct gospect_target *target, const struct gospect_retained_options *options,
		      struct gospect_retained **ret);

/* Before the target is closed. Takes NULL as well. */
GOSPECT_API void gospect_retained_destroy(struct gospect_retained *retained);

struct gospect_retained_info {
	uint64_t objects;     /* that a variable leads to */
	uint64_t bytes;       /* of them */
	uint64_t heap_bytes;  /* of all objects, free ones too */
	double error_percent; /* this share of the pointers had changed when they were read again */
};

/* Valid until it is destroyed. */
GOSPECT_API const struct gospect_retained_info *
gospect_retained_info(const struct gospect_retained *retained);

/* GOSPECT_TEXT, GOSPECT_JSON (its keys are in gospect-heap(1)), GOSPECT_HTML (a treemap),
 * GOSPECT_HPROF, GOSPECT_PPROF, GOSPECT_FOLDED or GOSPECT_SPEEDSCOPE. In the last three, a stack is
 * the path from a variable to the objects. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_retained_write(struct gospect_retained *retained, enum gospect_format format,
		       struct gospect_sink sink);

GOSPECT_END

#endif
