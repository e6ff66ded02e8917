#include "base/memory_room.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/door.h"

/* Version 1 has the largest multiple of a page where there is no limit. */
#define NO_LIMIT (1ull << 60)

/* The names of a group's files in one version of cgroups. */
struct names {
	const char *folder, *limit, *usage, *spare;
};

static const struct names v1 = {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
				"total_inactive_file"};
static const struct names v2 = {"", "memory.max", "memory.current", "inactive_file"};

/* false: there is no such file, or it has no number, as "max". */
static bool read_number(const char *group, const char *name, uint64_t *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", group, name) >= (int)sizeof(path))
		return false;
	f = door_fopen(path);
	return f && fscanf(f, "%lu", ret) == 1;
}

static uint64_t read_spare(const char *group, const char *name)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX], key[64];
	uint64_t value;

	if (snprintf(path, sizeof(path), "%s/memory.stat", group) >= (int)sizeof(path))
		return 0;
	f = door_fopen(path);
	while (f && fscanf(f, "%63s %lu", key, &value) == 2)
		if (!strcmp(key, name))
			return value;
	return 0;
}

/* UINT64_MAX: there is none. */
static uint64_t limit_of(const char *group, const struct names *n)
{
	uint64_t limit;

	return read_number(group, n->limit, &limit) && limit < NO_LIMIT ? limit : UINT64_MAX;
}

/* Without a limit both are UINT64_MAX and 0. */
static struct memory_group group_of(const char *group, const struct names *n)
{
	struct memory_group g = {limit_of(group, n), 0};
	uint64_t usage, spare;

	if (g.limit == UINT64_MAX || !read_number(group, n->usage, &usage))
		return (struct memory_group){UINT64_MAX, 0};
	spare = read_spare(group, n->spare);
	g.used = usage - (spare < usage ? spare : usage);
	return g;
}

static uint64_t room_in(const struct memory_group *g)
{
	return g->limit > g->used ? g->limit - g->used : 0;
}

/* The folder of a group; *ret_root is the length of the outermost one's, for cgroup_leave(). False:
 * it is too long. */
static bool folder_of(const char *mounted, const char *group, const struct names *n,
		      char ret[PATH_MAX], size_t *ret_root)
{
	*ret_root = strlen(mounted) + strlen(n->folder);
	return snprintf(ret, PATH_MAX, "%s%s%s", mounted, n->folder, group) < PATH_MAX;
}

/* Keeps the group with least room: of this one and its ancestors, and *least. In a container the
 * mount may show the process's own group as the root, under another name: then that is the last
 * one. */
static void look_upwards(const char *mounted, const char *group, const struct names *n,
			 struct memory_group *least)
{
	char path[PATH_MAX];
	size_t root;

	if (!folder_of(mounted, group, n, path, &root))
		return;
	do {
		struct memory_group g = group_of(path, n);

		if (room_in(&g) < room_in(least))
			*least = g;
	} while (cgroup_leave(path, root));
}

bool memory_group_in(const char *groups, const char *mounted, struct memory_group *ret)
{
	struct memory_group least = {UINT64_MAX, 0};
	char group[PATH_MAX];

	if (cgroup_find(groups, "memory", group))
		look_upwards(mounted, group, &v1, &least);
	if (cgroup_find(groups, NULL, group))
		look_upwards(mounted, group, &v2, &least);
	*ret = least;
	return least.limit != UINT64_MAX;
}

uint64_t memory_room_in(const char *groups, const char *mounted)
{
	struct memory_group least;

	memory_group_in(groups, mounted, &least);
	return room_in(&least);
}

static bool charge_of(const char *mounted, const char *group, const struct names *n,
		      uint64_t *ret_charge, uint64_t *ret_limit)
{
	char path[PATH_MAX];
	size_t root;

	if (!folder_of(mounted, group, n, path, &root) || !read_number(path, n->usage, ret_charge))
		return false;
	*ret_limit = UINT64_MAX;
	do {
		uint64_t limit = limit_of(path, n);

		*ret_limit = limit < *ret_limit ? limit : *ret_limit;
	} while (cgroup_leave(path, root));
	return true;
}

bool memory_charge_in(const char *groups, const char *mounted, uint64_t *ret_charge,
		      uint64_t *ret_limit)
{
	char group[PATH_MAX];

	if (cgroup_find(groups, "memory", group) &&
	    charge_of(mounted, group, &v1, ret_charge, ret_limit))
		return true;
	return cgroup_find(groups, NULL, group) &&
	       charge_of(mounted, group, &v2, ret_charge, ret_limit);
}

uint64_t memory_room(void)
{
	return memory_room_in("/proc/self/cgroup", "/sys/fs/cgroup");
}
