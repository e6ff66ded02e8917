/* How much memory gospect may still take before the kernel kills a process of its cgroup. */
#ifndef BASE_MEMORY_ROOM_H
#define BASE_MEMORY_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The least of what our memory cgroup and those around it have left, version 1 or 2, in bytes; file
 * pages that the kernel would give up first count as free. UINT64_MAX: no limit is known.
 */
uint64_t memory_room(void);

/* The same by these files: /proc/self/cgroup, and where cgroups are mounted, /sys/fs/cgroup. */
uint64_t memory_room_in(const char *groups, const char *mounted);

/*
 * What the memory cgroup of a process is charged for, which contains files that it read, and the
 * least limit of it and those around it: UINT64_MAX if there is none. `groups` is its
 * /proc/PID/cgroup. False: it has no such group, or it is the outermost, which has no charge.
 */
bool memory_charge_in(const char *groups, const char *mounted, uint64_t *ret_charge,
		      uint64_t *ret_limit);

/* The limit of the group that has least left, and the bytes that count against it. */
struct memory_group {
	uint64_t limit;
	uint64_t used;
};

/* By the same files, of any process: /proc/PID/cgroup. False: there is no limit. */
bool memory_group_in(const char *groups, const char *mounted, struct memory_group *ret);

#endif
