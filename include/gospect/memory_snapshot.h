/* The memory of a process at one point in time. */
#ifndef GOSPECT_MEMORY_SNAPSHOT_H
#define GOSPECT_MEMORY_SNAPSHOT_H

#include <gospect/confine.h>
#include <gospect/target.h>

GOSPECT_BEGIN

/* Makes no copy: the target stays stopped until the snapshot is ended. */
#define GOSPECT_MEMORY_SNAPSHOT_STOP 1u

struct gospect_memory_snapshot_options {
	size_t size; /* of this structure */
	/* The surgeon of this target, which must outlive the snapshot. NULL: the call starts one.
	 * */
	struct gospect_surgeon *surgeon;
	double max_pause; /* seconds; GOSPECT_ERROR_DENIED if the expected pause is longer; 0: no
			     limit */
	uint32_t flags;
	uint32_t reserved;
};

/*
 * Until the snapshot is ended, all calls read the target as it was at one point in time. A thread
 * of the target forks a copy of the process. All threads of the target are stopped while the kernel
 * copies the page tables: about 24 ms for each GB of 4 KB pages. The copy never runs, and the
 * target's wait(2) does not see it. The kernel copies each page that the target then writes to,
 * which slows it down and takes memory. If the process cannot be forked, it stays stopped until the
 * snapshot is ended. Remarks have the expected and the true pause.
 *
 * On a core file, the call does nothing. GOSPECT_ERROR_UNSUPPORTED: the machine is not amd64.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_take_memory_snapshot(struct gospect_target *target,
				    const struct gospect_memory_snapshot_options *options);

struct gospect_memory_snapshot_info {
	uint32_t is_fork; /* 0: the target was stopped, or there was no snapshot */
	uint32_t reserved;
	double expected_pause; /* seconds, of all threads */
	double pause;
	double lived;          /* seconds from the beginning to the end */
	uint64_t copied_bytes; /* of pages that the target wrote to meanwhile */
};

/*
 * Kills the copy and waits for its end, or resumes the target. GOSPECT_ERROR_FAILED: the copy ended
 * before, because memory ran out or the process exited, so what was read is not of one point in
 * time. `ret` may be NULL; *ret is valid until the target is closed. Closing the target ends a
 * snapshot, too.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_target_end_memory_snapshot(struct gospect_target *target,
				   const struct gospect_memory_snapshot_info **ret);

GOSPECT_END

#endif
