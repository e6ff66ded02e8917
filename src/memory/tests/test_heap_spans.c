#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "golayout/view.h"
#include "memory/heap_spans.h"
#include "memory/span_marks.h"
#include "target/callback_memory.h"

/* The target's memory: its heap structure, then the list of spans, then the spans. */
#define BASE 0x7f0000000000ull
#define LIST (BASE + (256u << 10))
#define SPANS (BASE + (288u << 10))
#define STRIDE 1024
#define BITS (BASE + (400u << 10))
#define HEAP_PAGES 0xc000000000ull
#define SWEEPGEN 8u

static uint8_t memory[512 << 10];
static struct golayout lay;
static struct target *target;
static struct memory_variables variables;
static uint64_t unreadable; /* a page of memory that cannot be read */

static int read_memory(void *arg, uint64_t address, void *buffer, size_t size)
{
	if (address < BASE || size > sizeof(memory) || address - BASE > sizeof(memory) - size)
		return 1;
	if (unreadable && address < unreadable + 4096 && unreadable < address + size)
		return 1;
	memcpy(buffer, memory + (address - BASE), size);
	return 0;
}

static void put(uint64_t address, int32_t offset, uint64_t value, size_t size)
{
	assert_true(offset >= 0);
	memcpy(memory + (address - BASE) + offset, &value, size);
}

static uint64_t span_address(size_t i)
{
	return SPANS + i * STRIDE;
}

static size_t narrow(void)
{
	return lay.n.span_large_type == GOLAYOUT_ABSENT ? 8 : 2;
}

/* A span in use, of one page with 128 objects of 64 bytes, `allocated` of them taken. */
static void make_span(size_t i, uint64_t start, uint64_t pages, uint64_t allocated)
{
	const struct golayout_numbers *n = &lay.n;
	uint64_t at = span_address(i);

	put(LIST, i * 8, at, 8);
	put(at, n->span_start, start, 8);
	put(at, n->span_pages, pages, 8);
	put(at, n->span_elements, 128, narrow());
	put(at, n->span_element_size, 64, 8);
	put(at, n->span_alloc_count, allocated, 2);
	put(at, n->span_class, 5 << 1 | 1, 1);
	put(at, n->span_state, SPAN_IN_USE, 1);
	put(at, n->span_sweepgen, SWEEPGEN, 4);
}

static void set_count(uint64_t count)
{
	uint64_t header = heap_at_all_spans(&lay.n, variables.heap);

	put(header, 0, LIST, 8);
	put(header, 8, count, 8);
	put(header, 16, count, 8);
}

static void set_up_version(int minor)
{
	memset(memory, 0, sizeof(memory));
	lay = (struct golayout){.minor = minor, .n = *golayout_table(minor, 99)};
	variables = (struct memory_variables){.heap = BASE};
	put(BASE, lay.n.heap_sweepgen, SWEEPGEN, 4);
	unreadable = 0;
}

static int set_up(void **state)
{
	const struct target_callbacks callbacks = {read_memory, NULL, "made-up", 0};

	set_up_version(27);
	return target_open_callback(&callbacks, &target) != NULL;
}

static int tear_down(void **state)
{
	target_close(target);
	return 0;
}

static struct heap_spans read_all(void)
{
	struct heap_spans spans = {0};

	assert_null(heap_spans_read(target, &lay, &variables, NULL, &spans));
	return spans;
}

static void test_spans_of_every_version_are_read_in_the_order_of_their_pages(void **state)
{
	for (int minor = GOLAYOUT_MIN_MINOR; minor <= GOLAYOUT_MAX_MINOR; minor++) {
		_cleanup_heap_spans_ struct heap_spans spans = {0};

		set_up_version(minor);
		make_span(0, HEAP_PAGES + 2 * SPAN_PAGE, 1, 7);
		make_span(1, HEAP_PAGES, 2, 128);
		make_span(2, HEAP_PAGES + 5 * SPAN_PAGE, 1, 0);
		put(span_address(2), lay.n.span_state, SPAN_DEAD, 1);
		set_count(3);
		spans = read_all();
		assert_int_equal(spans.count, 2);
		assert_int_equal(spans.structures, 3);
		assert_int_equal(spans.sweepgen, SWEEPGEN);
		assert_int_equal(spans.changed, 0);
		assert_int_equal(spans.items[0].start, HEAP_PAGES);
		assert_int_equal(spans.items[0].size, 2 * SPAN_PAGE);
		assert_int_equal(spans.items[0].allocated, 128);
		assert_int_equal(spans.items[1].elements, 128);
		assert_int_equal(spans.items[1].element_size, 64);
		assert_int_equal(spans.items[1].size_class, 5);
		assert_false(spans.items[1].has_pointers);
		assert_null(heap_spans_find(&spans, HEAP_PAGES - 1));
		assert_ptr_equal(heap_spans_find(&spans, HEAP_PAGES + SPAN_PAGE), &spans.items[0]);
		assert_ptr_equal(heap_spans_find(&spans, HEAP_PAGES + 2 * SPAN_PAGE),
				 &spans.items[1]);
		assert_null(heap_spans_find(&spans, HEAP_PAGES + 3 * SPAN_PAGE));
	}
}

static void test_spans_that_make_no_sense_are_left_out_and_counted(void **state)
{
	static const struct {
		uint64_t start, pages, elements, size, allocated;
	} wrong[] = {
		{HEAP_PAGES, 1ull << 60, 128, 64, 1},
		{HEAP_PAGES, UINT64_MAX, 128, 64, 1},
		{HEAP_PAGES, 0, 128, 64, 1},
		{HEAP_PAGES + 8, 1, 128, 64, 1},
		{UINT64_MAX - 8191, 1, 128, 64, 1},
		{1ull << 48, 1, 128, 64, 1},
		{HEAP_PAGES, 1, 129, 64, 1},
		{HEAP_PAGES, 1, 128, 0, 1},
		{HEAP_PAGES, 1, 128, 1ull << 60, 1},
		{HEAP_PAGES, 1, 128, 64, 129},
		{HEAP_PAGES, 1, 0, 64, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		make_span(i, wrong[i].start, wrong[i].pages, wrong[i].allocated);
		put(span_address(i), lay.n.span_elements, wrong[i].elements, 2);
		put(span_address(i), lay.n.span_element_size, wrong[i].size, 8);
	}
	make_span(ARRAY_SIZE(wrong), HEAP_PAGES, 1, 1);
	set_count(ARRAY_SIZE(wrong) + 1);
	{
		_cleanup_heap_spans_ struct heap_spans spans = read_all();

		assert_int_equal(spans.count, 1);
		assert_int_equal(spans.changed, ARRAY_SIZE(wrong));
	}
}

static void test_of_two_spans_with_one_page_one_is_left_out(void **state)
{
	make_span(0, HEAP_PAGES, 4, 1);
	make_span(1, HEAP_PAGES + 3 * SPAN_PAGE, 4, 1);
	make_span(2, HEAP_PAGES + 4 * SPAN_PAGE, 1, 1);
	set_count(3);
	{
		_cleanup_heap_spans_ struct heap_spans spans = read_all();

		assert_int_equal(spans.count, 2);
		assert_int_equal(spans.changed, 1);
		assert_int_equal(spans.items[1].start, HEAP_PAGES + 4 * SPAN_PAGE);
	}
}

static void test_unreadable_span_hides_no_other(void **state)
{
	for (size_t i = 0; i < 10; i++)
		make_span(i, HEAP_PAGES + i * SPAN_PAGE, 1, 1);
	set_count(10);
	unreadable = span_address(4); /* and the three behind it */
	{
		_cleanup_heap_spans_ struct heap_spans spans = read_all();

		assert_int_equal(spans.count, 6);
		assert_int_equal(spans.changed, 4);
	}
}

static void test_list_of_2_to_the_60_spans_is_refused(void **state)
{
	struct heap_spans spans = {0};
	struct error *err;

	set_count(1ull << 60);
	err = heap_spans_read(target, &lay, &variables, NULL, &spans);
	assert_non_null(err);
	assert_int_equal(err->code, ERROR_CORRUPT);
	assert_non_null(strstr(err->message, "more spans than fit its memory"));
	error_destroy(err);
}

static void test_objects_without_a_mark_are_garbage_until_they_are_swept(void **state)
{
	_cleanup_heap_spans_ struct heap_spans spans = {0};
	struct runtime_memory none = {0};
	uint16_t garbage[3];

	for (size_t i = 0; i < 3; i++) {
		make_span(i, HEAP_PAGES + i * SPAN_PAGE, 1, 100);
		put(span_address(i), lay.n.span_mark_bits, BITS, 8);
	}
	put(span_address(1), lay.n.span_sweepgen, SWEEPGEN - 2, 4);
	put(span_address(2), lay.n.span_sweepgen, SWEEPGEN - 2, 4);
	put(span_address(2), lay.n.span_mark_bits, 4096, 8); /* unreadable */
	put(BITS, 0, 0xff00ff, 8);
	put(BITS, 8, 1, 8);
	set_count(3);
	spans = read_all();
	assert_null(span_garbage_count(target, &lay, &spans, &none, garbage));
	assert_int_equal(garbage[0], 0);
	assert_int_equal(garbage[1], 100 - 17);
	assert_int_equal(garbage[2], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_spans_of_every_version_are_read_in_the_order_of_their_pages, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			test_spans_that_make_no_sense_are_left_out_and_counted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_of_two_spans_with_one_page_one_is_left_out,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unreadable_span_hides_no_other, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_list_of_2_to_the_60_spans_is_refused, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			test_objects_without_a_mark_are_garbage_until_they_are_swept, set_up,
			tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
