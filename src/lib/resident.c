#include "lib/resident.h"

#include <stdio.h>

#include "base/memory_room.h"
#include "target/proc_status.h"

struct resident resident_read(pid_t pid)
{
	long rss = target_status_number(pid, "VmRSS");
	struct resident r = {.rss = rss > 0 ? (uint64_t)rss << 10 : 0};
	struct memory_group group;
	char groups[64];

	snprintf(groups, sizeof(groups), "/proc/%d/cgroup", pid);
	if (memory_group_in(groups, "/sys/fs/cgroup", &group))
		r.limit = group.limit;
	return r;
}
