#include "inject/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/door.h"
#include "base/mountinfo.h"

/* The largest value of a period and of a quota: the kernel allows periods of one second. */
#define MOST_NS 1000000000ull
/* How often the count of periods is read. Reading it takes some microseconds of the quota. */
#define LOOK_NS 1000000ull

/* A control group in one hierarchy: its mount point, and the path below it. */
struct group {
	char mount[PATH_MAX];
	char path[PATH_MAX];
};

/* If the mount has a root of its own, that is removed from the path. */
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

/* The quota of the group itself; 0: it has none. In microseconds. */
static uint64_t quota_us(const struct group *g, bool v2, uint64_t *ret_period)
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
	*ret_period = period;
	return quota > 0 && period ? quota : 0;
}

static uint64_t to_ns(uint64_t us)
{
	return us < MOST_NS / 1000 ? us * 1000 : MOST_NS;
}

static void add_group(const struct group *g, bool v2, struct quota *q)
{
	uint64_t period, runtime = to_ns(quota_us(g, v2, &period));
	char path[3 * PATH_MAX];

	if (!runtime)
		return;
	period = to_ns(period);
	q->longest_ns = period > q->longest_ns ? period : q->longest_ns;
	if (q->period_ns && runtime >= q->runtime_ns)
		return;
	q->period_ns = period;
	q->runtime_ns = runtime;
	q->counts[0] = '\0';
	snprintf(path, sizeof(path), "%s%s/cpu.stat", g->mount, g->path);
	if (strlen(path) < sizeof(q->counts))
		strcpy(q->counts, path);
}

static void add_groups(const char *groups, const char *mounts, bool v2, struct quota *q)
{
	struct group g = {0};

	/* "/..": the group is outside of this control group namespace. */
	if (!cgroup_find(groups, v2 ? NULL : "cpu", g.path) || !strncmp(g.path, "/..", 3) ||
	    !find_mount(mounts, v2, &g))
		return;
	do
		add_group(&g, v2, q);
	while (cgroup_leave(g.path, 0));
}

void quota_find_in(const char *groups, const char *mounts, struct quota *ret)
{
	*ret = (struct quota){0};
	add_groups(groups, mounts, true, ret);
	if (!ret->period_ns)
		add_groups(groups, mounts, false, ret);
}

void quota_find(pid_t pid, struct quota *ret)
{
	char groups[64];

	snprintf(groups, sizeof(groups), pid ? "/proc/%d/cgroup" : "/proc/self/cgroup", pid);
	quota_find_in(groups, "/proc/self/mountinfo", ret);
}

bool quota_is_same(const struct quota *a, const struct quota *b)
{
	return a->period_ns && b->period_ns && a->counts[0] && !strcmp(a->counts, b->counts);
}

static void sleep_for(uint64_t ns)
{
	uint64_t until = clock_now() + ns;
	struct timespec time = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

static bool read_periods(int file, uint64_t *ret)
{
	char text[1024], *at;
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "nr_periods ");
	return at && sscanf(at, "nr_periods %" SCNu64, ret) == 1;
}

void quota_await_period(const struct quota *q)
{
	_cleanup_close_ int file = q->counts[0] ? door_open(q->counts, 0) : -1;
	uint64_t until = clock_now() + q->period_ns, first, now;

	if (file < 0 || !read_periods(file, &first)) {
		sleep_for(q->period_ns);
		return;
	}
	do
		sleep_for(LOOK_NS);
	while (clock_now() < until && read_periods(file, &now) && now == first);
}

void quota_await_whole(const struct quota *q)
{
	sleep_for(q->longest_ns);
	quota_await_period(q);
}
