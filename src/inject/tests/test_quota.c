/* The period of a CPU quota, of either version of cgroups, in a folder that looks like theirs. */
#include <limits.h>
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
static uint64_t period(bool v2, const char *root, const char *path)
{
	char here[PATH_MAX], text[2 * PATH_MAX];

	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(text, sizeof(text), "%s:%s\n", v2 ? "0:" : "4:cpu,cpuacct", path);
	put("groups", text);
	snprintf(text, sizeof(text),
		 "22 1 0:20 / /proc rw - proc proc rw\n33 24 0:28 %s %s rw,nosuid shared:9 - %s "
		 "cgroup rw%s\n",
		 root, here, v2 ? "cgroup2" : "cgroup", v2 ? "" : ",cpu,cpuacct");
	put("mounts", text);
	return quota_period_in("groups", "mounts");
}

static void make_folders(void)
{
	assert_int_equal(mkdir("a", 0700), 0);
	assert_int_equal(mkdir("a/b", 0700), 0);
}

static void the_longest_of_the_groups_around_us_counts(void **state)
{
	make_folders();
	put("a/b/cpu.max", "max 100000\n");
	assert_int_equal(period(true, "/", "/a/b"), 0);
	put("a/b/cpu.max", "20000 50000\n");
	assert_int_equal(period(true, "/", "/a/b"), 50 * MS);
	put("a/cpu.max", "20000 200000\n");
	assert_int_equal(period(true, "/", "/a/b"), 200 * MS);
	put("a/cpu.max", "max 200000\n");
	assert_int_equal(period(true, "/", "/a/b"), 50 * MS);
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

static void a_whole_period_is_awaited(void **state)
{
	uint64_t start = clock_now();

	quota_await_period(20 * MS);
	assert_true(clock_now() - start >= 20 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_FOLDER(the_longest_of_the_groups_around_us_counts),
		TEST_IN_FOLDER(a_quota_of_version_1_has_two_files),
		TEST_IN_FOLDER(a_mount_with_a_root_of_its_own_is_looked_at_from_there),
		TEST_IN_FOLDER(a_period_is_not_awaited_for_longer_than_a_second),
		cmocka_unit_test(a_whole_period_is_awaited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
