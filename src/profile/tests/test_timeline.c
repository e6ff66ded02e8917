#include "base/unit_test.h"

#include <stdlib.h>

#include "base/array.h"
#include "profile/timeline.h"

#define MS 1000000u

static void add(struct timeline *t, uint32_t row, uint64_t begin_ms, uint64_t end_ms, uint64_t ms)
{
	assert_null(timeline_add(t, row, begin_ms * MS, end_ms * MS, ms * MS));
}

/* The time of a row in each column. */
static void row_of(const struct timeline *t, uint32_t row, uint64_t *ret, size_t columns)
{
	struct timeline_step *steps;
	size_t count, next = 0;
	uint64_t now = 0;

	assert_null(timeline_steps(t, &steps, &count));
	while (next < count && steps[next].row < row)
		next++;
	for (size_t i = 0; i < columns; i++) {
		for (; next < count && steps[next].row == row && steps[next].column == i; next++)
			now = steps[next].ns;
		ret[i] = now;
	}
	free(steps);
}

static uint64_t sum_of(const struct timeline *t, uint32_t row)
{
	uint64_t columns[TIMELINE_MOST_COLUMNS + 1], sum = 0;

	row_of(t, row, columns, t->columns);
	for (size_t i = 0; i < t->columns; i++)
		sum += columns[i];
	return sum;
}

static void expect(const struct timeline *t, uint32_t row, const uint64_t *ms, size_t count)
{
	uint64_t columns[64];

	row_of(t, row, columns, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(columns[i], ms[i] * MS);
}

#define EXPECT(t, row, ...)                             \
	expect(t, row, (const uint64_t[]){__VA_ARGS__}, \
	       ARRAY_SIZE(((const uint64_t[]){__VA_ARGS__})))

static void steps_of_a_damaged_file_are_left_out(void **state)
{
	static const struct timeline_step steps[] = {
		{0, 0, MS}, {0, 2, 0},          {0, 1, MS}, {0, 1, 0}, {7, 0, MS},
		{7, 1, 0},  {0, 3, 1ull << 50}, {0, 4, 0},  {0, 5, 1}, {0, UINT32_MAX, 0},
	};
	_cleanup_timeline_ struct timeline t = {0}, later = {0};

	(void)state;
	assert_null(timeline_add_steps(&t, 10 * MS, steps, ARRAY_SIZE(steps), 7));
	EXPECT(&t, 0, 1, 1, 0, 0);
	assert_null(timeline_add_steps(&t, UINT64_MAX, steps, ARRAY_SIZE(steps), 7));
	assert_null(timeline_add_steps(&t, 0, steps, ARRAY_SIZE(steps), 7));
	EXPECT(&t, 0, 1, 1, 0, 0);
	/* A year later columns are wider. */
	assert_null(timeline_add_later(&later, &t, 3, 31536000000ull * MS));
	assert_int_equal(sum_of(&later, 3), 2 * MS);
	assert_in_range(later.columns, 1, TIMELINE_MOST_COLUMNS);
}

static void time_is_spread_over_its_columns(void **state)
{
	_cleanup_timeline_ struct timeline t = {0};

	(void)state;
	add(&t, 3, 5, 35, 60);
	add(&t, 3, 37, 39, 2);
	add(&t, 7, 12, 18, 6);
	EXPECT(&t, 3, 10, 20, 20, 12, 0);
	EXPECT(&t, 7, 0, 6, 0, 0);
	EXPECT(&t, 5, 0, 0, 0);
	assert_int_equal(t.columns, 4);
}

/* A steady state costs two cells, however long it lasts and however many pieces it has. */
static void what_stands_still_takes_no_memory(void **state)
{
	_cleanup_timeline_ struct timeline t = {0};
	struct timeline_step *steps;
	size_t count;

	(void)state;
	for (uint64_t ms = 0; ms < 59000; ms += 7)
		add(&t, 1, ms, ms + 7 > 59000 ? 59000 : ms + 7, ms + 7 > 59000 ? 59000 - ms : 7);
	assert_null(timeline_steps(&t, &steps, &count));
	assert_int_equal(count, 2);
	assert_int_equal(steps[0].ns, 10 * MS);
	assert_int_equal(steps[1].column, 5900);
	free(steps);
}

static void columns_widen_and_keep_the_sums(void **state)
{
	_cleanup_timeline_ struct timeline t = {0};

	(void)state;
	for (uint64_t s = 0; s < 3600; s += 2) {
		add(&t, 1, s * 1000 + 130, s * 1000 + 630, 5000);
		add(&t, 2, s * 1000, s * 1000 + 2000, 2000);
	}
	assert_int_equal(t.width_ns, 640 * MS);
	assert_true(t.columns <= TIMELINE_MOST_COLUMNS);
	assert_int_equal(sum_of(&t, 1), 1800ull * 5000 * MS);
	assert_int_equal(sum_of(&t, 2), 3600ull * 1000 * MS);
}

/* As many rows as there can be stacks, each with its own time. */
static void cells_are_bounded(void **state)
{
	_cleanup_timeline_ struct timeline t = {0};
	uint64_t sum = 0;
	struct timeline_step *steps;
	size_t count;

	(void)state;
	for (uint32_t i = 0; i < 3000000; i++)
		add(&t, i % 10000, i / 100, i / 100 + 1, 1);
	assert_true(t.cells.count <= TIMELINE_MOST_CELLS);
	assert_null(timeline_steps(&t, &steps, &count));
	for (size_t i = 0; i + 1 < count; i++)
		if (steps[i].row == steps[i + 1].row)
			sum += steps[i].ns * (steps[i + 1].column - steps[i].column);
	assert_int_equal(sum, 3000000ull * MS);
	free(steps);
}

static void another_one_is_added_by_its_rows(void **state)
{
	_cleanup_timeline_ struct timeline a = {0}, b = {0};
	static const uint32_t rows[] = {4, TIMELINE_NO_ROW, 0};

	(void)state;
	add(&a, 4, 0, 10, 1);
	add(&b, 0, 10, 20, 2);
	add(&b, 1, 0, 10, 7);
	add(&b, 2, 0, 10, 3);
	add(&b, 3, 0, 10, 9);
	add(&b, 0, 70000, 70010, 5);
	assert_null(timeline_add_all(&a, &b, rows, ARRAY_SIZE(rows)));
	assert_int_equal(a.width_ns, 20 * MS);
	EXPECT(&a, 4, 3, 0, 0);
	EXPECT(&a, 0, 3, 0, 0);
	EXPECT(&a, 1, 0, 0, 0);
	assert_int_equal(sum_of(&a, 4), 8 * MS);
}

static void nonsense_is_left_out(void **state)
{
	_cleanup_timeline_ struct timeline t = {0};

	(void)state;
	assert_null(timeline_add(&t, 1, 5, 4, 1));
	assert_null(timeline_add(&t, 1, 0, UINT64_MAX, 1));
	assert_null(timeline_add(&t, 1, 0, 1, UINT64_MAX));
	assert_int_equal(t.cells.count, 0);
	assert_null(timeline_add(&t, 1, (1ull << 62) - 2, (1ull << 62) - 1, (1ull << 62) - 1));
	assert_int_equal(sum_of(&t, 1), (1ull << 62) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_is_spread_over_its_columns),
		cmocka_unit_test(steps_of_a_damaged_file_are_left_out),
		cmocka_unit_test(what_stands_still_takes_no_memory),
		cmocka_unit_test(columns_widen_and_keep_the_sums),
		cmocka_unit_test(cells_are_bounded),
		cmocka_unit_test(another_one_is_added_by_its_rows),
		cmocka_unit_test(nonsense_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
