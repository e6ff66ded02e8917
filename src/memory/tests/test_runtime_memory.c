#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "golayout/view.h"
#include "memory/runtime_memory.h"

#define BASE 0x7f0000000000ull
#define SIZE (512u << 10)
#define STATS (128u << 10)
#define CONTROLLER (192u << 10)
#define LISTS (200u << 10)
#define CHUNKS (256u << 10)
#define MIB (1ull << 20)

static uint8_t memory[SIZE];
static struct golayout lay;
static struct target *target;
static struct memory_variables variables;
static struct heap_spans spans;
static struct heap_span span;
static uint32_t longer; /* bytes at the end of a generation */

static void put(uint32_t at, int32_t offset, uint64_t value)
{
	assert_true(offset >= 0 && at + (uint32_t)offset + 8 <= SIZE);
	memcpy(memory + at + offset, &value, sizeof(value));
}

static int set_up(void **state)
{
	const struct target_range range = {BASE, SIZE, memory};

	memset(memory, 0, sizeof(memory));
	lay = (struct golayout){.minor = 27, .n = *golayout_table(27, 99)};
	longer = 0;
	variables = (struct memory_variables){.heap = BASE,
					      .stats = BASE + STATS,
					      .controller = BASE + CONTROLLER,
					      .gc_bits = BASE + LISTS,
					      .persistent_chunks = BASE + LISTS + 64};
	span = (struct heap_span){.state = SPAN_IN_USE, .size_class = 3, .element_size = 24};
	spans = (struct heap_spans){.items = &span, .count = 1};
	put(CONTROLLER, lay.n.gc_triggered, UINT64_MAX);
	return target_open_memory(&range, 1, &target) != NULL;
}

static int tear_down(void **state)
{
	target_close(target);
	return 0;
}

static struct error *read_it(struct runtime_memory *ret)
{
	return runtime_memory_read(target, MACHINE_AMD64, &lay, &variables, &spans, ret);
}

/* A word of one of the three generations of changes. */
static void put_delta(uint32_t generation, int32_t offset, uint64_t value)
{
	const struct golayout_numbers *n = &lay.n;
	uint32_t size = n->delta_small_free + n->delta_large_free - n->delta_small_alloc + longer;

	put(STATS + n->stats_heap + generation * size, offset, value);
}

static void test_counters_are_the_sum_of_three_generations(void **state)
{
	_cleanup_runtime_memory_ struct runtime_memory m = {0};
	const struct golayout_numbers *n = &lay.n;

	put_delta(0, n->delta_committed, 100 * MIB);
	put_delta(2, n->delta_committed, -20 * MIB);
	put_delta(1, n->delta_released, 7 * MIB);
	put_delta(0, n->delta_in_heap, 50 * MIB);
	put_delta(1, n->delta_in_stacks, 4 * MIB);
	put_delta(2, n->delta_in_work_bufs, MIB);
	put_delta(0, n->delta_large_alloc, 9 * MIB);
	put_delta(1, n->delta_large_free, 2 * MIB);
	put_delta(0, n->delta_small_alloc + 3 * 8, 1000);
	put_delta(1, n->delta_small_free + 3 * 8, 400);
	put(STATS, n->stats_gc, 3 * MIB);
	assert_null(read_it(&m));
	assert_int_equal(m.classes.heap_objects, 7 * MIB + 600 * 24);
	assert_int_equal(m.classes.heap_unused, 50 * MIB - m.classes.heap_objects);
	assert_int_equal(m.classes.heap_free, (80 - 50 - 4 - 1) * MIB);
	assert_int_equal(m.classes.heap_released, 7 * MIB);
	assert_int_equal(m.classes.metadata_other, 4 * MIB);
	assert_int_equal(m.classes.total, 90 * MIB);
}

/* Of Go 1.17.6 and 1.18, at least. */
static void test_longer_generations_are_recognized_by_the_spans(void **state)
{
	for (int old = 0; old < 2; old++) {
		_cleanup_runtime_memory_ struct runtime_memory m = {0};

		memset(memory, 0, sizeof(memory));
		lay = (struct golayout){.minor = 17, .n = *golayout_table(17, 99)};
		longer = old ? 8 : 0;
		span.size = 6 * MIB;
		put_delta(0, lay.n.delta_in_heap, MIB);
		put_delta(1, lay.n.delta_in_heap, 2 * MIB);
		put_delta(2, lay.n.delta_in_heap, 3 * MIB);
		put_delta(1, lay.n.delta_released, MIB);
		put_delta(2, lay.n.delta_in_stacks, MIB);
		assert_null(read_it(&m));
		assert_int_equal(m.classes.heap_unused, 6 * MIB);
		assert_int_equal(m.classes.heap_released, MIB);
		assert_int_equal(m.classes.heap_stacks, MIB);
	}
}

static void test_lower_of_both_goals_decides(void **state)
{
	const struct golayout_numbers *n = &lay.n;

	put(CONTROLLER, n->gc_percent, 100);
	put(CONTROLLER, n->gc_percent_goal, 90 * MIB);
	put(CONTROLLER, n->gc_memory_limit, INT64_MAX);
	for (int limited = 0; limited < 2; limited++) {
		_cleanup_runtime_memory_ struct runtime_memory m = {0};

		assert_null(read_it(&m));
		assert_int_equal(m.gc.percent, 100);
		assert_int_equal(m.gc.is_limited, limited);
		/* Of 64 MB, 4 are no heap; 3 % of the rest is kept free, but at least 1 MB. */
		assert_int_equal(m.gc.goal, limited ? 60 * MIB - 60 * MIB / 100 * 3 : 90 * MIB);
		put(CONTROLLER, n->gc_memory_limit, 64 * MIB);
		put(CONTROLLER, n->gc_mapped_ready, 44 * MIB);
		put(CONTROLLER, n->gc_heap_free, 10 * MIB);
		put(CONTROLLER, n->gc_total_alloc, 130 * MIB);
		put(CONTROLLER, n->gc_total_free, 100 * MIB);
	}
}

static void assert_corrupt(const char *words)
{
	struct runtime_memory m = {0};
	struct error *err = read_it(&m);

	assert_non_null(err);
	assert_int_equal(err->code, ERROR_CORRUPT);
	assert_non_null(strstr(err->message, words));
	error_destroy(err);
}

static void test_list_of_chunks_in_a_circle_is_refused(void **state)
{
	put(LISTS, 64, BASE + CHUNKS);
	put(CHUNKS, 0, BASE + CHUNKS + 64);
	put(CHUNKS, 64, BASE + CHUNKS);
	assert_corrupt("leads in a circle");
}

static void test_2_to_the_60_arenas_are_refused(void **state)
{
	put(0, lay.n.heap_arena_list, BASE + LISTS);
	put(0, lay.n.heap_arena_list + 8, 1ull << 60);
	assert_corrupt("more arenas");
	put(0, lay.n.heap_arena_list + 8, 1);
	put(LISTS, 0, 1ull << 60);
	assert_corrupt("the number of an arena");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_counters_are_the_sum_of_three_generations,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_longer_generations_are_recognized_by_the_spans,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lower_of_both_goals_decides, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_list_of_chunks_in_a_circle_is_refused, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_2_to_the_60_arenas_are_refused, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
