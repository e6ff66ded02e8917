/* The expected pause: without a quota, and where one ends within the stop. */
#include <string.h>

#include "base/unit_test.h"
#include "inject/pause.h"

#define MS 1000000ull

static struct quota quota(uint64_t runtime, uint64_t period, const char *counts)
{
	struct quota q = {.period_ns = period, .runtime_ns = runtime, .longest_ns = period};

	strcpy(q.counts, counts);
	return q;
}

static struct pause expected(const struct pause_conditions *c)
{
	struct pause pause;

	pause_compute(c, &pause);
	assert_int_equal(pause.threads, c->threads);
	return pause;
}

static void it_grows_with_the_threads(void **state)
{
	assert_true(expected(&(struct pause_conditions){.threads = 10}).ns < MS);
	assert_in_range(expected(&(struct pause_conditions){.threads = 1000}).ns, 2 * MS, 10 * MS);
	assert_in_range(expected(&(struct pause_conditions){.threads = 10000}).ns, 20 * MS,
			80 * MS);
}

/* 10,000 threads take at least a microsecond of CPU each, so 1 ms in 100 is used up ten times. */
static void who_uses_up_a_quota_stands_for_whole_periods(void **state)
{
	struct pause_conditions c = {.threads = 10000, .own = quota(MS, 100 * MS, "a")};
	struct pause own = expected(&c), target;

	assert_true(own.ns >= 9 * 100 * MS);
	assert_int_equal(own.own.runtime_ns, MS);
	assert_int_equal(own.own.period_ns, 100 * MS);
	assert_int_equal(own.target.period_ns, 0);
	c = (struct pause_conditions){.threads = 10000, .target = quota(MS, 100 * MS, "a")};
	target = expected(&c);
	assert_true(target.ns >= 9 * 100 * MS);
	assert_int_equal(target.target.runtime_ns, MS);
	assert_int_equal(target.own.period_ns, 0);
}

static void a_quota_that_is_enough_adds_nothing(void **state)
{
	struct pause_conditions c = {.threads = 10};
	uint64_t without = expected(&c).ns;

	c.own = quota(10 * MS, 100 * MS, "a");
	c.target = quota(10 * MS, 100 * MS, "b");
	assert_int_equal(expected(&c).ns, without);
	assert_int_equal(expected(&c).own.period_ns, 0);
}

static void a_real_time_priority_has_no_quota(void **state)
{
	struct pause_conditions c = {.threads = 10000, .is_real_time = true};
	uint64_t without = expected(&c).ns;

	c.own = quota(MS, 100 * MS, "a");
	assert_int_equal(expected(&c).ns, without);
	/* The target's threads have none. */
	c.target = quota(MS, 100 * MS, "b");
	assert_true(expected(&c).ns > without);
}

/* In one container both use up the same quota, which is said once. */
static void a_common_quota_is_used_up_by_both(void **state)
{
	struct pause_conditions c = {.threads = 10000,
				     .own = quota(20 * MS, 100 * MS, "a"),
				     .target = quota(20 * MS, 100 * MS, "a")};
	struct pause both = expected(&c);

	assert_int_equal(both.own.period_ns, 0);
	assert_int_equal(both.target.period_ns, 100 * MS);
	c.own.period_ns = 0;
	assert_true(both.ns > expected(&c).ns);
}

static void no_threads_need_no_time(void **state)
{
	struct pause_conditions c = {.own = quota(1000, 1000, "a"), .target = quota(1, 1, "b")};

	assert_true(expected(&c).ns < MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_grows_with_the_threads),
		cmocka_unit_test(who_uses_up_a_quota_stands_for_whole_periods),
		cmocka_unit_test(a_quota_that_is_enough_adds_nothing),
		cmocka_unit_test(a_real_time_priority_has_no_quota),
		cmocka_unit_test(a_common_quota_is_used_up_by_both),
		cmocka_unit_test(no_threads_need_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
