#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/agent_labels.h"
#include "base/unit_test.h"

enum { HEAP = 1 << 16 };

/* A heap, and the slot that copies from it. */
struct fixture {
	_Alignas(16) uint8_t heap[HEAP];
	size_t used;
	struct agent_shared shared;
	struct agent_slot slot;
	struct agent_label_set set;
};

static struct fixture fixture;

static struct fixture *make(bool maps)
{
	struct fixture *f = &fixture;

	memset(f, 0, sizeof(*f));
	f->shared.config.label_maps = maps;
	f->shared.readable[0] =
		(struct agent_readable){(uint64_t)f->heap, (uint64_t)f->heap + HEAP};
	f->shared.readable_count = 1;
	return f;
}

static uint64_t put(struct fixture *f, const void *bytes, size_t n)
{
	uint64_t at = (uint64_t)f->heap + f->used;

	assert_true(f->used + n <= HEAP);
	memcpy(f->heap + f->used, bytes, n);
	f->used += (n + 15) & ~15ul;
	return at;
}

struct text {
	uint64_t data, length;
};

static struct text put_text(struct fixture *f, const char *text)
{
	return (struct text){put(f, text, strlen(text) + 1), strlen(text)};
}

static uint64_t put_slice(struct fixture *f, const struct text *texts, uint64_t labels)
{
	uint64_t slice[3] = {put(f, texts, labels * 2 * sizeof(*texts)), labels, labels};

	return put(f, slice, sizeof(slice));
}

static void copy(struct fixture *f, uint64_t pointer)
{
	agent_labels_copy(&f->slot, &f->shared, pointer, &f->set);
}

static void assert_copied(const struct fixture *f, const char *bytes, size_t n)
{
	assert_int_equal(f->set.unread, 0);
	assert_int_equal(f->set.size, n);
	assert_memory_equal(f->slot.labels, bytes, n);
}

static void a_slice_is_copied_with_its_strings(void **state)
{
	struct fixture *f = make(false);
	struct text texts[] = {put_text(f, "a"), put_text(f, "one"), put_text(f, ""),
			       put_text(f, "")};

	copy(f, put_slice(f, texts, 2));
	assert_copied(f, "\1a\3one\0\0", 8);
	assert_int_equal(f->set.cut, 0);
}

static void equal_sets_have_equal_hashes_wherever_they_are(void **state)
{
	struct fixture *f = make(false);
	uint64_t first;

	for (int i = 0; i < 3; i++) {
		struct text texts[] = {put_text(f, "key"), put_text(f, i < 2 ? "value" : "valuf")};

		copy(f, put_slice(f, texts, 1));
		if (!i)
			first = f->set.hash;
		assert_int_equal(f->set.hash == first, i < 2);
	}
}

/* runtime.hmap and its buckets. */
struct hmap {
	uint64_t count;
	uint8_t flags, b;
	uint16_t overflows;
	uint32_t seed;
	uint64_t buckets, old, evacuated, extra;
};

struct bucket {
	uint8_t top[8];
	struct text keys[8], values[8];
	uint64_t overflow;
};

static uint64_t put_map(struct fixture *f, struct hmap map)
{
	uint64_t address = put(f, &map, sizeof(map));

	return put(f, &address, sizeof(address));
}

static void a_growing_map_is_copied_from_both_of_its_halves(void **state)
{
	struct fixture *f = make(true);
	struct bucket over = {.top = {0, 9}, .keys = {{0}, put_text(f, "c")}};
	struct bucket now[2] = {{.top = {7}, .keys = {put_text(f, "a")}}};
	/* One of its two has moved already. */
	struct bucket old = {.top = {3, 8},
			     .keys = {put_text(f, "a"), put_text(f, "b")},
			     .values = {{0}, put_text(f, "two")},
			     .overflow = put(f, &over, sizeof(over))};
	struct hmap map = {.count = 3,
			   .b = 1,
			   .buckets = put(f, now, sizeof(now)),
			   .old = put(f, &old, sizeof(old))};

	copy(f, put_map(f, map));
	assert_copied(f, "\1a\0\1b\3two\1c\0", 12);
}

static void a_chain_without_end_is_left(void **state)
{
	struct fixture *f = make(true);
	struct bucket b = {.top = {9}, .keys = {put_text(f, "a")}};
	uint64_t address = (uint64_t)f->heap + f->used;

	b.overflow = address;
	assert_int_equal(put(f, &b, sizeof(b)), address);
	copy(f, put_map(f, (struct hmap){.count = 1, .b = 31, .buckets = address}));
	assert_int_equal(f->set.size, 3 * AGENT_MAX_LABELS);
	assert_int_equal(f->set.cut, AGENT_MAX_BUCKETS - AGENT_MAX_LABELS);
}

static void long_labels_are_truncated_and_excess_labels_dropped(void **state)
{
	struct fixture *f = make(false);
	static char megabyte[HEAP / 2];
	struct text texts[2 * 1000];
	struct text letter = put_text(f, "x"), longest;

	memset(megabyte, 'v', sizeof(megabyte) - 1);
	longest = put_text(f, megabyte);
	for (int i = 0; i < 1000; i++) {
		texts[2 * i] = i == 1 ? longest : letter;
		texts[2 * i + 1] = i ? letter : longest;
	}
	copy(f, put_slice(f, texts, 900));
	assert_int_equal(f->set.unread, 0);
	assert_int_equal(f->set.size, 2 + 2 + AGENT_MAX_LABEL + (AGENT_MAX_LABELS - 2) * 4);
	assert_int_equal(f->set.cut, 1 + 1 + 900 - AGENT_MAX_LABELS);
}

/* Whatever lies where a set should be, nothing is read that may not be. */
static void nothing_is_read_elsewhere(void **state)
{
	uint8_t *forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t bad[] = {1, (uint64_t)forbidden, UINT64_MAX, UINT64_MAX - 7, 1ull << 63};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct fixture *f = make(false);
		struct text texts[] = {put_text(f, "a"), {bad[i], 5}, {bad[i], 1}, {bad[i], 0}};
		uint64_t slice[3] = {bad[i], 1, 1};

		copy(f, bad[i]);
		assert_int_equal(f->set.unread, 1);
		copy(f, put(f, slice, sizeof(slice)));
		assert_int_equal(f->set.unread, 1);
		copy(f, put_slice(f, texts, 1));
		assert_int_equal(f->set.unread, 1);
		copy(f, put_slice(f, texts + 2, 1));
		assert_int_equal(f->set.unread, 1);
		copy(f, (uint64_t)f->heap + HEAP - 8);
		assert_int_equal(f->set.unread, 1);
		f->shared.config.label_maps = 1;
		copy(f, put(f, &bad[i], 8));
		assert_int_equal(f->set.unread, 1);
		copy(f, put_map(f, (struct hmap){.b = 3, .buckets = bad[i]}));
		assert_int_equal(f->set.unread, 1);
	}
	munmap(forbidden, 4096);
}

/* runtime/mranges.go: addrRanges.add() stores the length, then the capacity, then the array. A
 * reader in between finds a length that the array does not have. */
static void a_list_of_ranges_that_is_being_changed_is_not_read_beyond_its_array(void **state)
{
	struct fixture *f = make(false);
	struct agent_readable *pages =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct agent_readable *array = pages + 4096 / sizeof(*array) - 2;
	struct text texts[] = {put_text(f, "a"), put_text(f, "one")};
	uint64_t set = put_slice(f, texts, 1), slice[3] = {(uint64_t)array, 2, 2};

	mprotect((uint8_t *)pages + 4096, 4096, PROT_NONE);
	array[0] = (struct agent_readable){1, 2};
	array[1] = f->shared.readable[0];
	f->shared.readable_count = 0;
	f->shared.heap_ranges = (uint64_t)slice;
	f->shared.heap_array = (uint64_t)array;
	f->shared.heap_capacity = 2;
	copy(f, set);
	assert_copied(f, "\1a\3one", 6);
	array[1] = array[0];
	slice[1] = 3;
	copy(f, set);
	assert_int_equal(f->set.unread, 1);
	slice[0] = 0x1000; /* gospect has not looked at this one */
	copy(f, set);
	assert_int_equal(f->set.unread, 1);
	munmap(pages, 8192);
}

static void any_bytes_are_survived(void **state)
{
	struct fixture *f = make(false);

	srandom(1);
	for (int round = 0; round < 20000; round++) {
		uint64_t *words = (uint64_t *)f->heap;

		for (int i = 0; i < 200; i++) {
			uint64_t inside = (uint64_t)f->heap + random() % HEAP;

			words[i] = random() % 3 ? inside : (uint64_t)(random() % 300);
		}
		f->shared.config.label_maps = round & 1;
		copy(f, (uint64_t)f->heap + random() % 1600 / 8 * 8);
		assert_true(f->set.size <= AGENT_LABEL_BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slice_is_copied_with_its_strings),
		cmocka_unit_test(equal_sets_have_equal_hashes_wherever_they_are),
		cmocka_unit_test(a_growing_map_is_copied_from_both_of_its_halves),
		cmocka_unit_test(a_chain_without_end_is_left),
		cmocka_unit_test(long_labels_are_truncated_and_excess_labels_dropped),
		cmocka_unit_test(nothing_is_read_elsewhere),
		cmocka_unit_test(
			a_list_of_ranges_that_is_being_changed_is_not_read_beyond_its_array),
		cmocka_unit_test(any_bytes_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
