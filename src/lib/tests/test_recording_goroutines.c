#include "base/unit_test.h"

#include <stdlib.h>

#include "lib/recording_goroutines.h"

#define STAYS 2200000u /* more than are kept */
#define GOROUTINES 4000u

static void take(struct recording_goroutines *g, uint64_t goroutine, uint64_t ns, bool runs)
{
	recording_goroutines_take(g,
				  &(struct wall_stay){goroutine, 1000, 1000 + ns, 1, runs, false});
}

static size_t count_of(const struct recording_goroutines *g, uint64_t goroutine)
{
	size_t count = 0;

	for (size_t i = 0; i < g->count; i++)
		count += g->stays[i].goroutine == goroutine;
	return count;
}

/* Goroutine 7 runs, and the others wait: the higher the id, the longer. */
static void the_busiest_and_the_longest_waiting_are_kept(void **state)
{
	struct recording_goroutines g = {0};
	size_t busy = 0, last = 0;

	(void)state;
	for (size_t i = 0; i < STAYS; i++) {
		uint64_t goroutine = 1 + i % GOROUTINES;

		take(&g, goroutine, goroutine, goroutine == 7);
		busy += goroutine == 7;
		last += goroutine == GOROUTINES;
	}
	assert_false(g.failed);
	assert_in_range(g.count, 1, STAYS - 1);
	assert_int_equal(count_of(&g, 7), busy);
	assert_int_equal(count_of(&g, GOROUTINES), last);
	assert_in_range(count_of(&g, 8), 0, last - 1);
	recording_goroutines_release(&g);
}

static void too_many_goroutines_that_are_alike_have_no_rows(void **state)
{
	struct recording_goroutines g = {0};

	(void)state;
	for (size_t i = 0; i < STAYS; i++)
		take(&g, i + 1, 50, false);
	assert_true(g.failed);
	assert_null(g.stays);
	recording_goroutines_release(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_busiest_and_the_longest_waiting_are_kept),
		cmocka_unit_test(too_many_goroutines_that_are_alike_have_no_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
