/*
 * The memory of a live process at one point in time, with the registers of its threads then. The
 * bytes come from a copy of the process (its fork), or from the process itself while it is stopped.
 * All else, such as its mappings, is that of the live process.
 */
#ifndef TARGET_MEMORY_SNAPSHOT_H
#define TARGET_MEMORY_SNAPSHOT_H

#include "target/target.h"

/* What the process that has stopped the target writes of each thread, in a file in memory. */
struct snapshot_thread {
	int32_t id;
	int32_t inner; /* the target's number of it */
	uint64_t pc, sp, fp;
	uint64_t general[32]; /* as in struct target_registers */
};

/*
 * `memory`: /proc/PID/mem of the copy, or -1. `threads`: the file. Neither is kept open by the
 * caller afterwards, also after an error. `live` must live as long as the result.
 */
struct error *target_open_memory_snapshot(struct target *live, int memory, int threads,
					  struct target **ret) must_check;

#endif
