#include <string.h>

#include "base/unit_test.h"
#include "goroutine/request_header.h"

/* The target's memory: one block at this address. */
#define BASE 0xc000000000ull
#define TRACE "0123456789abcdef0123456789abcdef"
#define SPAN "fedcba9876543210"

enum { SIZE = 1 << 15 };

static _Alignas(8) uint8_t bytes[SIZE];
static size_t used;
static struct target *target;

static int set_up(void **state)
{
	struct target_range block = {BASE, sizeof(bytes), bytes};

	memset(bytes, 0, sizeof(bytes));
	used = 64;
	return target_open_memory(&block, 1, &target) != NULL;
}

static int tear_down(void **state)
{
	target_close(target);
	return 0;
}

static uint64_t put(const void *from, size_t n)
{
	uint64_t at = BASE + used;

	assert_true(used + n <= SIZE);
	memcpy(bytes + used, from, n);
	used += (n + 15) & ~15ul;
	return at;
}

static struct go_string text(const char *s)
{
	return (struct go_string){put(s, strlen(s)), strlen(s)};
}

static struct go_slice value(const char *s)
{
	struct go_string string = text(s);

	return (struct go_slice){put(&string, sizeof(string)), 1, 1};
}

static bool find(enum go_map_kind kind, uint64_t header, struct trace_ids *ret)
{
	return request_header_ids(target, kind, header, ret);
}

static void assert_found(enum go_map_kind kind, uint64_t header)
{
	struct trace_ids ids;

	assert_true(find(kind, header, &ids));
	assert_memory_equal(ids.trace, TRACE, TRACE_ID_LENGTH);
	assert_memory_equal(ids.span, SPAN, SPAN_ID_LENGTH);
}

static uint64_t bucket_with(int at, const char *key, const char *parent)
{
	struct header_bucket b = {.tophash = {0}};

	b.tophash[at] = 99;
	b.keys[at] = text(key);
	b.values[at] = value(parent);
	return put(&b, sizeof(b));
}

static uint64_t group_with(bool is_split, int at, const char *key, const char *parent)
{
	union {
		struct header_group pairs;
		struct split_header_group split;
	} g;

	memset(&g, 0, sizeof(g));
	memset(g.pairs.control, GO_MAP_NO_KEY, sizeof(g.pairs.control));
	g.pairs.control[at] = 5;
	*(is_split ? &g.split.keys[at] : &g.pairs.pairs[at].key) = text(key);
	*(is_split ? &g.split.values[at] : &g.pairs.pairs[at].value) = value(parent);
	return put(&g, sizeof(g));
}

static const char parent[] = "00-" TRACE "-" SPAN "-01";

static void each_kind_of_map_is_searched(void **state)
{
	for (int at = 0; at < GO_MAP_SLOTS; at++) {
		struct go_hmap old = {.count = 1,
				      .buckets = bucket_with(at, "Traceparent", parent)};
		struct go_hmap growing = {.count = 1, .oldbuckets = old.buckets};
		struct go_map small = {.used = 1};

		assert_found(MAP_OF_BUCKETS, put(&old, sizeof(old)));
		assert_found(MAP_OF_BUCKETS, put(&growing, sizeof(growing)));
		small.directory = group_with(false, at, "Traceparent", parent);
		assert_found(MAP_OF_GROUPS, put(&small, sizeof(small)));
		small.directory = group_with(true, at, "traceparent", parent);
		assert_found(MAP_OF_SPLIT_GROUPS, put(&small, sizeof(small)));
	}
}

static void a_large_map_has_tables(void **state)
{
	struct go_table t = {.groups = group_with(false, 3, "Accept", "all")};
	struct go_map map = {.used = 2, .length = 2};
	uint64_t tables[2] = {put(&t, sizeof(t))};

	t.groups = group_with(false, 7, "Traceparent", parent);
	tables[1] = put(&t, sizeof(t));
	map.directory = put(tables, sizeof(tables));
	assert_found(MAP_OF_GROUPS, put(&map, sizeof(map)));
	t.groups -= sizeof(struct header_group); /* the second one of this table */
	t.mask = 1;
	tables[0] = put(&t, sizeof(t));
	map.directory = put(tables, sizeof(*tables));
	map.length = 1;
	assert_found(MAP_OF_GROUPS, put(&map, sizeof(map)));
}

static void what_is_no_traceparent_is_none(void **state)
{
	static const char *const wrong[] = {"",
					    "00-" TRACE "-" SPAN,
					    "ff-" TRACE "-" SPAN "-01",
					    "00-00000000000000000000000000000000-" SPAN "-01",
					    "00-" TRACE "-0000000000000000-01",
					    "00-" TRACE "-FEDCBA9876543210-01",
					    "00-" TRACE "_" SPAN "-01"};
	struct trace_ids ids;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct go_map map = {.used = 1,
				     .directory = group_with(false, 0, "Traceparent", wrong[i])};

		assert_false(find(MAP_OF_GROUPS, put(&map, sizeof(map)), &ids));
	}
	assert_false(find(MAP_OF_GROUPS, 0, &ids));
	assert_false(find(MAP_OF_BUCKETS, BASE + SIZE, &ids));
}

/* A target may claim anything: each search ends. */
static void maps_that_lie_are_left(void **state)
{
	struct header_bucket round = {.overflow = BASE + used};
	struct go_hmap old = {.count = 9, .b = 16, .buckets = put(&round, sizeof(round))};
	struct go_table t = {.groups = BASE, .mask = UINT64_MAX};
	struct go_map map = {.used = 1, .length = UINT64_MAX, .directory = BASE};
	struct trace_ids ids;

	assert_false(find(MAP_OF_BUCKETS, put(&old, sizeof(old)), &ids));
	assert_false(find(MAP_OF_GROUPS, put(&map, sizeof(map)), &ids));
	map.directory = put(&(uint64_t){put(&t, sizeof(t))}, 8);
	map.length = 1;
	assert_false(find(MAP_OF_GROUPS, put(&map, sizeof(map)), &ids));
	map.directory = group_with(false, 0, "Traceparent", parent) | 1;
	map.length = 0;
	assert_false(find(MAP_OF_GROUPS, put(&map, sizeof(map)), &ids));
}

static void contexts_are_followed(void **state)
{
	struct go_map map = {.used = 1, .directory = group_with(false, 2, "traceparent", parent)};
	uint64_t value_of[6] = {0, 0, 0, 0, 0, put(&map, sizeof(map))};
	uint64_t cancel[6] = {0, put(value_of, sizeof(value_of))}, own = BASE + used;
	uint64_t round[6] = {0, own};
	struct trace_ids ids;

	assert_int_equal(put(round, sizeof(round)), own);
	assert_true(request_context_ids(target, MAP_OF_GROUPS, put(cancel, sizeof(cancel)), &ids));
	assert_memory_equal(ids.span, SPAN, SPAN_ID_LENGTH);
	assert_false(request_context_ids(target, MAP_OF_GROUPS, own, &ids));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_kind_of_map_is_searched, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_large_map_has_tables, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_no_traceparent_is_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(maps_that_lie_are_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(contexts_are_followed, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
