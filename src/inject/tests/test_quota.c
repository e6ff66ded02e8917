/* CPU quotas, of either version of cgroups, in a folder that looks like theirs. */
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/test_folder.h"
#include "base/unit_test.h"
#include "inject/quota.h"

#define MS 1000000ull

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* Mounted here, with that root; our group is `path`. */
static struct quota find(bool v2, const char *root, const char *path)
{
	char here[PATH_MAX], text[2 * PATH_MAX];
	struct quota q;

	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(text, sizeof(text), "%s:%s\n", v2 ? "0:" : "4:cpu,cpuacct", path);
	put("groups", text);
	snprintf(text, sizeof(text),
		 "22 1 0:20 / /proc rw - proc proc rw\n33 24 0:28 %s %s rw,nosuid shared:9 - %s "
		 "cgroup rw%s\n",
		 root, here, v2 ? "cgroup2" : "cgroup", v2 ? "" : ",cpu,cpuacct");
	put("mounts", text);
	quota_find_in("groups", "mounts", &q);
	return q;
}

static uint64_t period(bool v2, const char *root, const char *path)
{
	return find(v2, root, path).period_ns;
}

static void make_folders(void)
{
	assert_int_equal(mkdir("a", 0700), 0);
	assert_int_equal(mkdir("a/b", 0700), 0);
}

static void the_smallest_of_the_groups_around_us_counts(void **state)
{
	struct quota q;

	make_folders();
	put("a/b/cpu.max", "max 100000\n");
	assert_int_equal(period(true, "/", "/a/b"), 0);
	put("a/b/cpu.max", "20000 50000\n");
	assert_int_equal(period(true, "/", "/a/b"), 50 * MS);
	put("a/cpu.max", "30000 200000\n");
	q = find(true, "/", "/a/b");
	assert_int_equal(q.period_ns, 50 * MS);
	assert_int_equal(q.runtime_ns, 20 * MS);
	assert_int_equal(q.longest_ns, 200 * MS);
	put("a/cpu.max", "10000 200000\n");
	q = find(true, "/", "/a/b");
	assert_int_equal(q.period_ns, 200 * MS);
	assert_int_equal(q.runtime_ns, 10 * MS);
	put("a/cpu.max", "max 200000\n");
	assert_int_equal(period(true, "/", "/a/b"), 50 * MS);
}

static void two_processes_of_a_group_have_one_quota(void **state)
{
	struct quota a, b, none;

	make_folders();
	put("a/cpu.max", "20000 50000\n");
	a = find(true, "/", "/a/b");
	b = find(true, "/", "/a");
	assert_true(quota_is_same(&a, &b));
	put("a/b/cpu.max", "10000 50000\n");
	a = find(true, "/", "/a/b");
	assert_false(quota_is_same(&a, &b));
	none = find(true, "/", "/");
	assert_false(quota_is_same(&none, &none));
}

/* Of a process that our control group namespace does not show. */
static void a_group_outside_of_what_we_see_has_none(void **state)
{
	make_folders();
	put("a/cpu.max", "20000 50000\n");
	assert_int_equal(period(true, "/", "/../a"), 0);
}

static void a_quota_of_version_1_has_two_files(void **state)
{
	make_folders();
	put("a/b/cpu.cfs_quota_us", "-1\n");
	put("a/b/cpu.cfs_period_us", "100000\n");
	assert_int_equal(period(false, "/", "/a/b"), 0);
	put("a/b/cpu.cfs_quota_us", "10000\n");
	assert_int_equal(period(false, "/", "/a/b"), 100 * MS);
}

/* In a container the mount's root is the container's group. */
static void a_mount_with_a_root_of_its_own_is_looked_at_from_there(void **state)
{
	make_folders();
	put("a/cpu.max", "20000 30000\n");
	assert_int_equal(period(true, "/docker/x", "/docker/x/a"), 30 * MS);
}

static void a_period_is_not_awaited_for_longer_than_a_second(void **state)
{
	make_folders();
	put("a/cpu.max", "1000 18446744073709551615\n");
	assert_int_equal(period(true, "/", "/a"), 1000 * MS);
	put("a/cpu.max", "1000 18446744073709552\n"); /* in ns it is a small number */
	assert_int_equal(period(true, "/", "/a"), 1000 * MS);
}

/* Writes the count of a period into the file after a while. */
static void *count(void *arg)
{
	usleep(30000);
	put("a/stat", "usage_usec 5\nnr_periods 8\nnr_throttled 0\n");
	return NULL;
}

static void the_beginning_of_a_period_is_awaited(void **state)
{
	struct quota q = {.period_ns = 1000 * MS, .counts = "a/stat"};
	uint64_t start;
	pthread_t thread;

	make_folders();
	put("a/stat", "usage_usec 5\nnr_periods 7\nnr_throttled 0\n");
	start = clock_now();
	assert_int_equal(pthread_create(&thread, NULL, count, NULL), 0);
	quota_await_period(&q);
	assert_in_range(clock_now() - start, 30 * MS, 900 * MS);
	pthread_join(thread, NULL);
}

static void a_period_that_is_not_counted_is_awaited_as_a_whole(void **state)
{
	struct quota q = {.period_ns = 20 * MS, .longest_ns = 30 * MS, .counts = "a/stat"};
	uint64_t start = clock_now();

	make_folders();
	quota_await_period(&q);
	assert_true(clock_now() - start >= 20 * MS);
	put("a/stat", "nr_periods 7\n");
	start = clock_now();
	quota_await_period(&q);
	assert_true(clock_now() - start >= 20 * MS);
	start = clock_now();
	quota_await_whole(&q);
	assert_true(clock_now() - start >= 50 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_FOLDER(the_smallest_of_the_groups_around_us_counts),
		TEST_IN_FOLDER(two_processes_of_a_group_have_one_quota),
		TEST_IN_FOLDER(a_group_outside_of_what_we_see_has_none),
		TEST_IN_FOLDER(a_quota_of_version_1_has_two_files),
		TEST_IN_FOLDER(a_mount_with_a_root_of_its_own_is_looked_at_from_there),
		TEST_IN_FOLDER(a_period_is_not_awaited_for_longer_than_a_second),
		TEST_IN_FOLDER(the_beginning_of_a_period_is_awaited),
		TEST_IN_FOLDER(a_period_that_is_not_counted_is_awaited_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
