/* What a snapshot costs the target, as far as it can be known before. */
#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/door.h"
#include "base/memory_room.h"
#include "inject/pause.h"
#include "inject/snapshot.h"
#include "target/proc_status.h"

/* Measured with 0.1 to 6 GB of pages of 4 KB (bench/measure/snapshots.py): the kernel copies page
 * tables, 8 bytes a page. */
#define TABLE_NS_PER_KB 12000ull
/* Reading a heap takes so long, of memory that is resident. */
#define READ_NS_PER_KB 2500ull
/* Of processes: the Go runtime may start threads meanwhile, and ends the program when it cannot. */
#define SPARE_PROCESSES 32

static uint64_t kilobytes(pid_t pid, const char *name)
{
	long n = target_status_number(pid, name);

	return n > 0 ? (uint64_t)n : 0;
}

/* ---- memory ---- */

/* Of the machine; UINT64_MAX: not known. */
static uint64_t available_kb(void)
{
	_cleanup_fclose_ FILE *f = door_fopen("/proc/meminfo");
	unsigned long long n;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu", &n) == 1)
			return n;
	return UINT64_MAX;
}

static uint64_t group_room_kb(pid_t pid)
{
	struct memory_group group;
	char groups[64];

	snprintf(groups, sizeof(groups), "/proc/%d/cgroup", pid);
	if (!memory_group_in(groups, "/sys/fs/cgroup", &group))
		return UINT64_MAX;
	return group.limit > group.used ? (group.limit - group.used) / 1024 : 0;
}

/* If the target writes to each of its pages, there are two of each. A group may have to die as a
 * whole (memory.oom.group), so its limit must not be reached. */
static bool has_memory(pid_t pid, char *why, size_t size)
{
	uint64_t need = kilobytes(pid, "RssAnon") + kilobytes(pid, "VmPTE");
	uint64_t group = group_room_kb(pid), machine = available_kb();

	if (need > group)
		snprintf(why, size,
			 "it might take %llu MB more, and its memory cgroup has %llu MB left",
			 (unsigned long long)need / 1024, (unsigned long long)group / 1024);
	else if (need > machine)
		snprintf(why, size, "it might take %llu MB more, and the machine has %llu MB left",
			 (unsigned long long)need / 1024, (unsigned long long)machine / 1024);
	return need <= group && need <= machine;
}

/* ---- processes ---- */

static bool read_number(const char *group, const char *name, unsigned long long *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", group, name) >= (int)sizeof(path))
		return false;
	f = door_fopen(path);
	return f && fscanf(f, "%llu", ret) == 1;
}

/* `folder`: of the hierarchy, where version 1 has one. */
static bool group_has_room(const char *folder, const char *group)
{
	unsigned long long limit, used;
	char path[PATH_MAX];
	size_t root = strlen(folder);

	if (snprintf(path, sizeof(path), "%s%s", folder, group) >= (int)sizeof(path))
		return true;
	do {
		if (read_number(path, "pids.max", &limit) &&
		    read_number(path, "pids.current", &used) && used + SPARE_PROCESSES > limit)
			return false;
	} while (cgroup_leave(path, root));
	return true;
}

static bool groups_have_room(pid_t pid)
{
	char groups[64], group[PATH_MAX];

	snprintf(groups, sizeof(groups), "/proc/%d/cgroup", pid);
	if (cgroup_find(groups, "pids", group) && !group_has_room("/sys/fs/cgroup/pids", group))
		return false;
	return !cgroup_find(groups, NULL, group) || group_has_room("/sys/fs/cgroup", group);
}

/* RLIMIT_NPROC; UINT64_MAX: none. */
static uint64_t most_processes(pid_t pid)
{
	_cleanup_fclose_ FILE *f = NULL;
	unsigned long long n;
	char line[256];

	snprintf(line, sizeof(line), "/proc/%d/limits", pid);
	f = door_fopen(line);
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Max processes %llu", &n) == 1)
			return n;
	return UINT64_MAX;
}

/* It counts the threads of all processes of a user. */
static bool user_has_room(pid_t pid)
{
	uint64_t most = most_processes(pid), used = 0;
	_cleanup_closedir_ DIR *folder = NULL;
	uid_t user = thread_user(pid);
	pid_t id;

	/* It does not hold for root. */
	if (most == UINT64_MAX || !user)
		return true;
	folder = process_folder_open();
	while (folder && (id = process_folder_next(folder)))
		if (thread_user(id) == user)
			used += kilobytes(id, "Threads");
	return used + SPARE_PROCESSES <= most;
}

static bool has_processes(pid_t pid, char *why, size_t size)
{
	const char *what = !groups_have_room(pid) ? "pids.max of its cgroup"
			   : !user_has_room(pid)  ? "RLIMIT_NPROC"
						  : NULL;

	if (what)
		snprintf(why, size, "%s permits fewer than %d processes more", what,
			 SPARE_PROCESSES);
	return !what;
}

/* ---- */

void snapshot_expect(pid_t pid, struct snapshot_expectation *ret)
{
	struct pause pause;

	*ret = (struct snapshot_expectation){
		.page_table_bytes = kilobytes(pid, "VmPTE") * 1024,
		.resident_bytes = kilobytes(pid, "RssAnon") * 1024,
	};
	pause_expect_fork(pid, kilobytes(pid, "VmPTE") * TABLE_NS_PER_KB, &pause);
	ret->fork_ns = pause.ns;
	pause_expect(pid, &pause);
	ret->stop_ns = pause.ns + kilobytes(pid, "RssAnon") * READ_NS_PER_KB;
	if (has_memory(pid, ret->no_fork, sizeof(ret->no_fork)))
		(void)!has_processes(pid, ret->no_fork, sizeof(ret->no_fork));
}
