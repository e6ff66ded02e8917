/* The CPU's clock as time, also before there is enough to tell its speed. */
#include "base/unit_test.h"
#include "collect/ticks.h"

static void before_there_are_two_pairs_all_ticks_are_at_the_first(void **state)
{
	/* The code must not read before this. */
	struct {
		struct tick_pair before[4];
		struct ticks ticks;
	} t = {.before = {{1, 1, 1}, {2, 2, 1}, {3, 3, 1}, {4, 4, 1}}};
	struct tick_pair pair = {.tick = 3000, .ns = 1000};

	assert_int_equal(ticks_to_ns(&t.ticks, 5), 0);
	ticks_add(&t.ticks, &pair);
	assert_int_equal(ticks_to_ns(&t.ticks, 0), 1000);
	assert_int_equal(ticks_to_ns(&t.ticks, 3), 1000);
	assert_int_equal(ticks_to_ns(&t.ticks, UINT64_MAX), 1000);
	assert_int_equal(ticks_of_ns(&t.ticks, 100), 100);
}

static void a_pair_that_is_no_later_counts_for_nothing(void **state)
{
	struct ticks t = {.count = 0};
	struct tick_pair pair = {.tick = 3000, .ns = 1000}, same = {.tick = 3000, .ns = 1001};

	ticks_add(&t, &pair);
	ticks_add(&t, &same);
	assert_int_equal(t.count, 1);
	assert_int_equal(ticks_to_ns(&t, 6000), 1000);
}

static void between_two_pairs_time_is_a_straight_line(void **state)
{
	struct ticks t = {.count = 0};

	for (uint64_t i = 1; i < 40; i++) {
		struct tick_pair pair = {.tick = 3000 * i, .ns = 1000 * i};

		ticks_add(&t, &pair);
	}
	assert_int_equal(t.count, TICKS_PAIRS);
	assert_int_equal(ticks_to_ns(&t, 3000 * 30 + 1500), 30500);
	assert_int_equal(ticks_to_ns(&t, 3000 * 100), 100000);
	assert_int_equal(ticks_to_ns(&t, 0), 0);
	assert_int_equal(ticks_of_ns(&t, 100), 300);
}

static void ticks_that_cannot_be_are_within_bounds(void **state)
{
	struct tick_pair pairs[] = {{.tick = 10, .ns = 1000}, {.tick = 11, .ns = 1001000}};
	struct ticks t = {.count = 0};

	ticks_add(&t, &pairs[0]);
	ticks_add(&t, &pairs[1]);
	assert_int_equal(ticks_to_ns(&t, INT64_MAX), 1ull << 62);
	assert_int_equal(ticks_to_ns(&t, (1ull << 63) + 10), 0);
	assert_int_equal(ticks_of_ns(&t, UINT64_MAX), UINT64_MAX / 1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_there_are_two_pairs_all_ticks_are_at_the_first),
		cmocka_unit_test(a_pair_that_is_no_later_counts_for_nothing),
		cmocka_unit_test(between_two_pairs_time_is_a_straight_line),
		cmocka_unit_test(ticks_that_cannot_be_are_within_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
