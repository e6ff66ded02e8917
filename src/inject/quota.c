#include "inject/quota.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/door.h"
#include "base/mountinfo.h"

#define MOST_PERIOD_NS 1000000000ull

/* Our group in one of the hierarchies: where that is mounted, and our path there. */
struct group {
	char mount[PATH_MAX];
	char path[PATH_MAX];
};

/* The mount may have its own root: then that is cut off our path. */
static bool find_mount(const char *mounts, bool v2, struct group *g)
{
	_cleanup_fclose_ FILE *f = door_fopen(mounts);
	struct mount_entry m;

	while (f && mountinfo_next(f, &m)) {
		size_t n = strcmp(m.root, "/") ? strlen(m.root) : 0;

		if (v2 ? strcmp(m.type, "cgroup2")
		       : strcmp(m.type, "cgroup") || !cgroup_has_word(m.options, "cpu"))
			continue;
		strcpy(g->mount, m.point);
		if (n && !strncmp(g->path, m.root, n))
			memmove(g->path, g->path + n, strlen(g->path + n) + 1);
		return true;
	}
	return false;
}

static bool read_line(const struct group *g, const char *name, char *line, int size)
{
	char path[3 * PATH_MAX];
	_cleanup_fclose_ FILE *f = NULL;

	snprintf(path, sizeof(path), "%s%s/%s", g->mount, g->path, name);
	f = door_fopen(path);
	return f && fgets(line, size, f);
}

static uint64_t period_us(const struct group *g, bool v2)
{
	unsigned long long period = 0;
	long long quota = -1;
	char line[128];

	if (v2) {
		if (read_line(g, "cpu.max", line, sizeof(line)))
			sscanf(line, "%lld %llu", &quota, &period);
	} else if (read_line(g, "cpu.cfs_quota_us", line, sizeof(line)) &&
		   sscanf(line, "%lld", &quota) == 1 && quota > 0 &&
		   read_line(g, "cpu.cfs_period_us", line, sizeof(line))) {
		sscanf(line, "%llu", &period);
	}
	return quota > 0 ? period : 0;
}

static uint64_t longest_period_us(const char *groups, const char *mounts, bool v2)
{
	struct group g = {0};
	uint64_t longest = 0;

	if (!cgroup_find(groups, v2 ? NULL : "cpu", g.path) || !find_mount(mounts, v2, &g))
		return 0;
	do {
		uint64_t us = period_us(&g, v2);

		longest = us > longest ? us : longest;
	} while (cgroup_leave(g.path, 0));
	return longest;
}

uint64_t quota_period_in(const char *groups, const char *mounts)
{
	uint64_t us =
		longest_period_us(groups, mounts, true) ?: longest_period_us(groups, mounts, false);

	return us < MOST_PERIOD_NS / 1000 ? us * 1000 : MOST_PERIOD_NS;
}

uint64_t quota_period_ns(void)
{
	return quota_period_in("/proc/self/cgroup", "/proc/self/mountinfo");
}

void quota_await_period(uint64_t period_ns)
{
	uint64_t until = clock_now() + period_ns;
	struct timespec time = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}
