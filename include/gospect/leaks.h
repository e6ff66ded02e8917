/* Goroutines that nothing can wake any more. */
#ifndef GOSPECT_LEAKS_H
#define GOSPECT_LEAKS_H

#include <gospect/snapshot.h>

GOSPECT_BEGIN

struct gospect_leaks_options {
	size_t size;       /* of this structure */
	uint64_t reserved; /* 0 */
};

struct gospect_leaks;

/*
 * Reads the whole heap and finds leaked goroutines. Such a goroutine waits for a channel, or for an
 * object of package sync, to which no pointer leads from any global variable or any goroutine that
 * can run. The target runs on and is not changed. It is read at least twice; a goroutine is leaked
 * if all looks agree. A core file is read once.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_leaks_find(struct gospect_target *target, const struct gospect_leaks_options *options,
		   struct gospect_leaks **ret);

/* Before the target is closed. Takes NULL as well. */
GOSPECT_API void gospect_leaks_destroy(struct gospect_leaks *leaks);

/* Notes in `later` how much each of its groups has grown since `earlier`. Both are of the same
 * target. `later` does not use `earlier` after the call. */
GOSPECT_API void gospect_leaks_compare(struct gospect_leaks *later,
				       const struct gospect_leaks *earlier);

struct gospect_leaks_info {
	uint64_t leaked;     /* goroutines, for certain */
	uint64_t suspected;  /* goroutines */
	uint64_t groups;     /* goroutines of one go statement that wait in one place are a group */
	uint64_t looks;      /* at the whole heap */
	uint64_t heap_bytes; /* of all objects, free ones too */
	uint64_t reachable_bytes; /* of the objects that global variables and goroutines that can
				     run lead to */
};

/* Valid until it is destroyed. */
GOSPECT_API const struct gospect_leaks_info *gospect_leaks_info(const struct gospect_leaks *leaks);

/*
 * Marks the leaked goroutines of a later snapshot of the same process: GOSPECT_TEXT then has
 * "(leaked)" behind their wait reasons, as Go 1.27 prints it. Call it before the first
 * gospect_snapshot_goroutines(). The only error is GOSPECT_ERROR_NO_MEMORY.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_snapshot_mark_leaks(struct gospect_snapshot *snapshot, const struct gospect_leaks *leaks);

/* GOSPECT_TEXT, or GOSPECT_JSON (its keys are in gospect-leaks(1)). */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_leaks_write(const struct gospect_leaks *leaks, enum gospect_format format,
		    struct gospect_sink sink);

GOSPECT_END

#endif
