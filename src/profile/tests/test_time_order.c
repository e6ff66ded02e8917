#include <stdio.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/unit_test.h"
#include "profile/time_order.h"
#include "tests/made_up.h"

#define _cleanup_made_up_ __attribute__((cleanup(made_up_deinit)))

static uint64_t sum_of(const struct time_order *order, uint32_t row)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < order->count; i++)
		if (order->pieces[i].row == row)
			sum += order->pieces[i].value;
	return sum;
}

static void pieces_of_a_sample_add_up_to_it(void **state)
{
	static void (*const make[])(struct made_up *) = {made_up_small, made_up_service,
							 made_up_bursts, made_up_hour};

	for (size_t i = 0; i < ARRAY_SIZE(make); i++) {
		_cleanup_time_order_ struct time_order order = {0};
		_cleanup_made_up_ struct made_up m = {0};

		make[i](&m);
		assert_null(time_order_make(m.profile, &order));
		assert_true(order.timed);
		for (size_t row = 0; row < m.profile->count; row++)
			assert_int_equal(sum_of(&order, row), m.profile->samples[row].wall_ns);
	}
}

/* Three columns share 100 ms, which three does not divide. */
static void pieces_are_in_the_order_of_their_time(void **state)
{
	static const struct made_up_sample first = {PROFILE_RUNNING, NULL, NULL, 100, 0},
					   second = {PROFILE_RUNNABLE, NULL, NULL, 50, 0};
	_cleanup_time_order_ struct time_order order = {0};
	_cleanup_made_up_ struct made_up m = {0};

	made_up_init(&m, "x", 1000);
	made_up_add_from(&m, &first, 500, 530, "main.main;main.late");
	made_up_add_from(&m, &second, 100, 110, "main.main;main.early");
	assert_null(time_order_make(m.profile, &order));
	assert_int_equal(order.width_ns, TIMELINE_WIDTH_NS);
	assert_int_equal(order.count, 4);
	assert_int_equal(order.pieces[0].column, 10);
	assert_int_equal(order.pieces[0].row, 1);
	assert_int_equal(order.pieces[0].value, 50000000);
	for (size_t i = 1; i < 4; i++) {
		assert_int_equal(order.pieces[i].column, 49 + i);
		assert_int_equal(order.pieces[i].row, 0);
		assert_in_range(order.pieces[i].value, 33333332, 33333335);
	}
	assert_int_equal(sum_of(&order, 0), 100000000);
}

/* 300 samples in 6,000 columns: 1.8 million pieces, of 20 frames each. */
static void columns_are_joined_where_the_pieces_are_too_many(void **state)
{
	static const struct made_up_sample busy = {PROFILE_RUNNING, NULL, NULL, 60000, 0};
	_cleanup_time_order_ struct time_order order = {0};
	_cleanup_made_up_ struct made_up m = {0};
	char stack[256];
	uint64_t words = 0;

	made_up_init(&m, "x", 60000);
	for (int i = 0; i < 300; i++) {
		snprintf(stack, sizeof(stack), "a;b;c;d;e;f;g;h;i;j;k;l;m;n;o;p;q;r;s;main.f%d", i);
		made_up_add_from(&m, &busy, 0, 60000, stack);
	}
	assert_null(time_order_make(m.profile, &order));
	assert_true(order.width_ns > TIMELINE_WIDTH_NS);
	for (size_t i = 0; i < order.count; i++)
		words += m.profile->samples[order.pieces[i].row].depth + 1;
	assert_in_range(words, 1 << 20, 1 << 22);
	for (uint32_t row = 0; row < 300; row++)
		assert_int_equal(sum_of(&order, row), 60000000000);
}

static void without_times_there_is_a_piece_a_sample(void **state)
{
	_cleanup_time_order_ struct time_order order = {0};
	_cleanup_made_up_ struct made_up m = {0};

	made_up_small(&m);
	assert_null(time_order_make(m.profile, &order));
	assert_int_equal(order.width_ns, 0);
	assert_int_equal(order.count, m.profile->count);
	for (size_t i = 0; i < order.count; i++)
		assert_int_equal(order.pieces[i].column, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_of_a_sample_add_up_to_it),
		cmocka_unit_test(pieces_are_in_the_order_of_their_time),
		cmocka_unit_test(columns_are_joined_where_the_pieces_are_too_many),
		cmocka_unit_test(without_times_there_is_a_piece_a_sample),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
