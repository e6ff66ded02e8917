/* Critical paths over goroutines that are made up. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "requests/critical_path.h"

static struct history history;
static struct critical_path path;

static int set_up(void **state)
{
	history = (struct history){0};
	path = (struct critical_path){0};
	return 0;
}

static int tear_down(void **state)
{
	history_release(&history);
	critical_path_release(&path);
	return 0;
}

static void does(uint64_t g, uint64_t begin, uint64_t end, enum trace_status state, uint32_t stack)
{
	assert_null(history_add(&history, &(struct span){.g = g,
							 .begin = begin,
							 .end = end,
							 .state = state,
							 .stack = stack}));
}

static void waits(uint64_t g, uint64_t begin, uint64_t end, uint32_t stack, uint64_t by,
		  uint32_t by_stack)
{
	assert_null(history_add(&history, &(struct span){.g = g,
							 .begin = begin,
							 .end = end,
							 .state = TRACE_WAITING,
							 .stack = stack,
							 .ended = {true, by_stack, by}}));
}

static void assert_path(const uint64_t (*expected)[4], size_t count)
{
	assert_int_equal(path.count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(path.segments[i].begin, expected[i][0]);
		assert_int_equal(path.segments[i].end, expected[i][1]);
		assert_int_equal(path.segments[i].g, expected[i][2]);
		assert_int_equal(path.segments[i].stack, expected[i][3]);
	}
}

/* 1 waits for 2, which waits for 3 meanwhile, which sleeps. */
static void a_wait_is_followed_to_who_ended_it(void **state)
{
	static const uint64_t expected[][4] = {{10, 20, 1, 5},  {20, 30, 2, 6},  {30, 70, 3, 8},
					       {70, 75, 3, 80}, {75, 80, 2, 60}, {80, 85, 1, 5},
					       {85, 100, 1, 0}};

	does(1, 0, 20, TRACE_RUNNING, 1);
	waits(1, 20, 80, 5, 2, 60);
	does(1, 80, 85, TRACE_RUNNABLE, 5);
	does(1, 85, 100, TRACE_RUNNING, 5);
	does(2, 0, 30, TRACE_RUNNING, 0);
	waits(2, 30, 75, 6, 3, 80);
	does(2, 75, 120, TRACE_RUNNING, 6);
	does(3, 0, 25, TRACE_RUNNING, 0);
	waits(3, 25, 70, 8, 0, 0);
	does(3, 70, 200, TRACE_RUNNING, 8);
	assert_null(critical_path_find(&history, 1, 10, 100, &path));
	assert_path(expected, ARRAY_SIZE(expected));
	assert_int_equal(path.segments[2].depth, 2);
}

static void before_a_goroutine_its_creator_is_on_the_path(void **state)
{
	static const uint64_t expected[][4] = {{0, 10, 1, 3},
					       {10, 40, 2, 9},
					       {40, 50, 2, 30},
					       {50, 60, 1, 0}};

	does(1, 0, 10, TRACE_RUNNING, 0);
	waits(1, 10, 50, 3, 3, 30);
	does(1, 50, 60, TRACE_RUNNING, 3);
	does(2, 0, 200, TRACE_RUNNING, 0);
	assert_null(history_add(&history, &(struct span){.g = 3,
							 .begin = 40,
							 .end = 90,
							 .state = TRACE_RUNNING,
							 .created = {true, 9, 2}}));
	assert_null(critical_path_find(&history, 1, 0, 60, &path));
	assert_int_equal(path.segments[1].g, 2);
	assert_int_equal(path.segments[2].g, 3);
	path.segments[2].g = 2;
	assert_path(expected, ARRAY_SIZE(expected));
}

/* Hostile: two end each other's waits for ever, and one its own. */
static void a_circle_of_wakers_ends(void **state)
{
	uint64_t covered = 0;

	for (uint64_t i = 0; i < 3000; i++) {
		waits(1, i * 10, i * 10 + 10, 1, 2, 0);
		waits(2, i * 10, i * 10 + 10, 2, 1, 0);
		waits(3, i * 10, i * 10 + 10, 3, 3, 0);
	}
	assert_null(critical_path_find(&history, 1, 0, 30000, &path));
	for (size_t i = 0; i < path.count; i++) {
		assert_int_equal(path.segments[i].begin, covered);
		covered = path.segments[i].end;
	}
	assert_int_equal(covered, 30000);
	assert_true(path.is_cut);
	critical_path_release(&path);
	path = (struct critical_path){0};
	assert_null(critical_path_find(&history, 3, 0, 30000, &path));
	assert_true(path.is_cut);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_wait_is_followed_to_who_ended_it),
		TEST(before_a_goroutine_its_creator_is_on_the_path),
		TEST(a_circle_of_wakers_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
