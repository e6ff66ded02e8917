/* The memory of a process at one point in time, for looks at all of it. */
#ifndef GOSPECT_MEMORY_SNAPSHOT_H
#define GOSPECT_MEMORY_SNAPSHOT_H

#include <gospect/confine.h>
#include <gospect/target.h>

GOSPECT_BEGIN

/* Does not fork: the target stays stopped until the snapshot is ended. */
#define GOSPECT_MEMORY_SNAPSHOT_STOP 1u

struct gospect_memory_snapshot_options {
	size_t size; /* of this structure */
	/* Of this target; it lives until the snapshot is ended. NULL: one is started. */
	struct gospect_surgeon *surgeon;
	double max_pause; /* seconds; GOSPECT_ERROR_DENIED if longer ones are expected. 0: any */
	uint32_t flags;
	uint32_t reserved;
};

/*
 * From here on all calls that read the target read it as it was at one point in time, until the
 * snapshot is ended. A thread of the target makes a copy of the process: all its threads are
 * stopped while the kernel copies the page tables, some 24 ms for each GB of 4 KB pages. The copy
 * never runs, and the target's wait(2) does not see it. Pages that the target writes to meanwhile
 * are copied, which slows it down and takes memory. If the process cannot be forked, it stays
 * stopped until the snapshot is ended. What is expected, and what it was, are remarks.
 *
 * Does nothing to a core file. GOSPECT_ERROR_UNSUPPORTED: not on this architecture.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_take_memory_snapshot(struct gospect_target *target,
				    const struct gospect_memory_snapshot_options *options);

struct gospect_memory_snapshot_info {
	uint32_t is_fork; /* 0: it was stopped; or there was no snapshot */
	uint32_t reserved;
	double expected_pause; /* seconds, of all threads */
	double pause;
	double lived;          /* seconds from the beginning to the end */
	uint64_t copied_bytes; /* of pages that the target wrote to meanwhile */
};

/*
 * The copy is killed and waited for. GOSPECT_ERROR_FAILED: it ended before, because memory ran out
 * or the process exited, so what was read since then is not of one point in time. *ret may be NULL;
 * it is valid until the target is closed. Closing the target ends a snapshot, too.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_end_memory_snapshot(struct gospect_target *target,
				   const struct gospect_memory_snapshot_info **ret);

GOSPECT_END

#endif
