/* Times by their length, and the Ps of a trace. */
#include <stdlib.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "requests/histogram.h"
#include "requests/processors.h"

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void percentiles_are_close_to_the_true_ones(void **state)
{
	enum { COUNT = 20000 };
	static const double percents[] = {1, 10, 50, 90, 99, 99.9, 100};
	uint64_t *values = calloc(COUNT, sizeof(*values));
	struct histogram *h = calloc(1, sizeof(*h));
	uint64_t random = 1;

	assert_non_null(values);
	assert_non_null(h);
	for (size_t i = 0; i < COUNT; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		values[i] = random >> (20 + (random >> 40) % 43);
		histogram_add(h, values[i]);
	}
	qsort(values, COUNT, sizeof(*values), by_value);
	for (size_t i = 0; i < ARRAY_SIZE(percents); i++) {
		uint64_t found = histogram_percentile(h, percents[i]);
		uint64_t exact = values[(size_t)(COUNT * percents[i] / 100 + 0.999) - 1];

		assert_true(found >= exact);
		assert_true(found <= exact + exact / 16 + 1);
	}
	free(values);
	free(h);
}

static void small_durations_have_buckets_of_their_own(void **state)
{
	struct histogram *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	for (uint64_t ns = 0; ns < 32; ns++) {
		*h = (struct histogram){0};
		histogram_add(h, ns);
		histogram_add(h, 1000);
		assert_int_equal(histogram_percentile(h, 50), ns ? ns : 1);
	}
	*h = (struct histogram){0};
	for (uint64_t ns = 0; ns < 16; ns++)
		histogram_add(h, ns);
	assert_int_equal(histogram_octave(h, 0), 2);
	assert_int_equal(histogram_octave(h, 1), 2);
	assert_int_equal(histogram_octave(h, 2), 4);
	assert_int_equal(histogram_octave(h, 3), 8);
	free(h);
}

static void a_p_is_in_one_state_at_a_time(void **state)
{
	struct processors all = {0};
	struct processor *p = processors_of(&all, 3), *q = processors_of(&all, 1);

	processor_begin(&all, p, PROCESSOR_RUNNING);
	assert_int_equal(all.busy, 1);
	processor_change(&all, p, PROCESSOR_IN_SYSCALL, 100);
	assert_int_equal(all.busy, 0);
	processor_change(&all, p, PROCESSOR_IDLE, 130);
	assert_int_equal(all.busy, 0);
	processor_change(&all, q, PROCESSOR_SCHEDULING, 40);
	processor_change(&all, q, PROCESSOR_RUNNING, 45);
	processors_complete(&all, 1000);
	assert_int_equal(all.items[0]->id, 1);
	assert_int_equal(q->ns[PROCESSOR_IDLE], 40);
	assert_int_equal(q->ns[PROCESSOR_SCHEDULING], 5);
	assert_int_equal(q->ns[PROCESSOR_RUNNING], 955);
	assert_int_equal(p->ns[PROCESSOR_RUNNING], 100);
	assert_int_equal(p->ns[PROCESSOR_IN_SYSCALL], 30);
	assert_int_equal(p->ns[PROCESSOR_IDLE], 870);
	assert_null(processors_of(&all, 1 << 16));
	processors_release(&all);
}

static void who_had_a_p_longest_is_found(void **state)
{
	struct processors all = {0};
	struct processor *p = processors_of(&all, 0);
	struct processor_run run;
	uint64_t ns;

	assert_false(processor_holder(p, 0, 1000, &run, &ns));
	for (uint64_t i = 0; i < 100; i++) {
		processor_run(p, i + 1, 0, i * 10);
		processor_leave(p, i, 0, i * 10 + (i == 97 ? 9 : 5));
	}
	assert_true(processor_holder(p, 950, 1000, &run, &ns));
	assert_int_equal(run.g, 98);
	assert_int_equal(run.stack, 97);
	assert_int_equal(ns, 9);
	assert_true(processor_holder(p, 971, 973, &run, &ns));
	assert_int_equal(ns, 2);
	assert_false(processor_holder(p, 996, 1000, &run, &ns));
	assert_true(processor_last(p, 0, &run));
	assert_int_equal(run.g, 100);
	assert_false(processor_last(p, 996, &run));
	processor_run(p, 7, 0, 2000);
	assert_true(processor_last(p, 2500, &run));
	assert_int_equal(run.g, 7);
	processors_release(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_are_close_to_the_true_ones),
		cmocka_unit_test(small_durations_have_buckets_of_their_own),
		cmocka_unit_test(a_p_is_in_one_state_at_a_time),
		cmocka_unit_test(who_had_a_p_longest_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
