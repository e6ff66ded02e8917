#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "oncpu/waits.h"

#define MS 1000000u

static struct waits *waits;

static int set_up(void **state)
{
	waits = waits_create();
	return !waits;
}

static int tear_down(void **state)
{
	waits_destroy(waits);
	return 0;
}

static void leave(pid_t tid, uint64_t time, bool could_run)
{
	struct perf_sample sample = {.what = PERF_LEAVES, .tid = tid, .time = time};

	assert_true(waits_leave(waits, &sample));
	waits_left(waits, tid, could_run);
}

/* The time that the draw stands for; 0: it was not drawn. */
static uint64_t come(pid_t tid, uint64_t time)
{
	uint64_t ns = 0;
	const struct perf_sample *left = waits_return(waits, tid, time, &ns);

	assert_true(!left || left->tid == tid);
	return left ? ns : 0;
}

static void each_20_ms_of_waiting_is_a_draw(void **state)
{
	leave(1, 100 * MS, true);
	assert_int_equal(come(1, 115 * MS), 0);
	leave(1, 200 * MS, true);
	assert_int_equal(come(1, 204 * MS), 0);
	leave(2, 300 * MS, true);
	assert_int_equal(come(2, 302 * MS), 20 * MS);
	leave(2, 400 * MS, true);
	assert_int_equal(come(2, 459 * MS), 60 * MS);
}

static void waits_of_different_threads_overlap(void **state)
{
	leave(1, 100 * MS, true);
	leave(2, 110 * MS, true);
	assert_int_equal(come(1, 130 * MS), 20 * MS);
	assert_int_equal(come(2, 150 * MS), 40 * MS);
}

static void sleep_is_no_wait(void **state)
{
	leave(1, 100 * MS, false);
	assert_int_equal(come(1, 900 * MS), 0);
	/* A thread that left in an unknown way is not drawn either. */
	assert_true(waits_leave(waits, &(struct perf_sample){.tid = 1, .time = 1000 * MS}));
	assert_int_equal(come(1, 1900 * MS), 0);
}

static void arrival_without_a_departure_is_no_wait(void **state)
{
	assert_int_equal(come(1, 100 * MS), 0);
	leave(1, 200 * MS, true);
	assert_int_equal(come(1, 220 * MS), 20 * MS);
	assert_int_equal(come(1, 900 * MS), 0);
}

static void lost_records_reset_open_waits(void **state)
{
	leave(1, 100 * MS, true);
	leave(1, 500 * MS, true);
	assert_int_equal(come(1, 520 * MS), 20 * MS);
	leave(1, 600 * MS, true);
	assert_int_equal(come(1, 600 * MS - 1), 0);
}

static void a_wait_has_a_copy_of_the_sample(void **state)
{
	uint64_t chain[] = {1, 2, 3}, kernel[] = {4};
	uint8_t stack[] = {5, 6};
	struct perf_sample sample = {.tid = 1, .time = MS, .stack = stack, .stack_size = 2};
	const struct perf_sample *left;
	uint64_t ns;

	sample.chain = chain;
	sample.chain_count = 3;
	sample.kernel = kernel;
	sample.kernel_count = 1;
	assert_true(waits_leave(waits, &sample));
	memset(chain, 0, sizeof(chain));
	memset(stack, 0, sizeof(stack));
	leave(2, MS, true);
	waits_left(waits, 1, true);
	left = waits_return(waits, 1, 100 * MS, &ns);
	assert_non_null(left);
	assert_int_equal(left->chain_count, 3);
	assert_int_equal(left->chain[2], 3);
	assert_int_equal(left->stack_size, 2);
	assert_int_equal(left->stack[1], 6);
	assert_int_equal(left->kernel_count, 0);
}

/* Long and short waits at two places: each place gets its share of the time, however many waits it
 * has. */
static void draws_are_as_time_is(void **state)
{
	uint64_t time = MS, seen[2] = {0}, truth[2] = {0};

	for (int i = 0; i < 200000; i++) {
		int place = i % 10 == 0;
		uint64_t ns = place ? 3 * MS + random() % (20 * MS) : random() % MS;

		leave(place, time, true);
		seen[place] += come(place, time + ns);
		truth[place] += ns;
		time += 10 * MS + ns;
	}
	for (int i = 0; i < 2; i++)
		assert_true(seen[i] > truth[i] * 0.95 && seen[i] < truth[i] * 1.05);
}

/* 1,000 threads wait all the time. */
static void a_crowd_has_no_more_draws_than_can_be_unwound(void **state)
{
	uint64_t waited = 0, seen = 0, draws = 0;

	for (uint64_t second = 1; second < 60; second++)
		for (pid_t tid = 1; tid <= 1000; tid++) {
			uint64_t ns;

			leave(tid, second * 1000 * MS, true);
			ns = come(tid, second * 1000 * MS + 900 * MS);
			waited += 900 * MS;
			seen += ns;
			draws += ns > 0;
		}
	assert_true(draws < 60 * 100 + 2000);
	assert_true(seen > waited * 0.97 && seen <= waited);
}

#define WAITS_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WAITS_TEST(each_20_ms_of_waiting_is_a_draw),
		WAITS_TEST(waits_of_different_threads_overlap),
		WAITS_TEST(sleep_is_no_wait),
		WAITS_TEST(arrival_without_a_departure_is_no_wait),
		WAITS_TEST(lost_records_reset_open_waits),
		WAITS_TEST(a_wait_has_a_copy_of_the_sample),
		WAITS_TEST(draws_are_as_time_is),
		WAITS_TEST(a_crowd_has_no_more_draws_than_can_be_unwound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
