#include <stdio.h>
#include <string.h>

#include "base/unit_test.h"
#include "labels/label_sets.h"

/* The target's memory: one block at this address. */
#define BASE 0xc000000000ull

static union {
	uint64_t words[4096];
	uint8_t bytes[4096 * 8];
} memory;

static struct target *target;
static struct label_sets sets;

static int set_up(void **state)
{
	struct target_range block = {BASE, sizeof(memory), memory.bytes};

	memset(&memory, 0, sizeof(memory));
	sets = (struct label_sets){0};
	return target_open_memory(&block, 1, &target) != NULL;
}

static int tear_down(void **state)
{
	label_sets_release(&sets);
	target_close(target);
	return 0;
}

/* A Go string {pointer, length} at a word, its bytes further behind. */
static void put_string(size_t word, size_t at, const char *s)
{
	memcpy(memory.bytes + at, s, strlen(s));
	memory.words[word] = BASE + at;
	memory.words[word + 1] = strlen(s);
}

static void put_slice(size_t word, size_t labels, uint64_t count)
{
	memory.words[word] = BASE + labels * 8;
	memory.words[word + 1] = memory.words[word + 2] = count;
}

static uint32_t read_one(uint64_t pointer)
{
	uint32_t id = 12345;

	assert_null(label_sets_read(&sets, target, &pointer, 1, &id));
	return id;
}

static void assert_label(uint32_t id, uint32_t i, const char *key, const char *value)
{
	struct label_set set = label_sets_get(&sets, id);

	assert_true(i < set.count);
	assert_string_equal(intern_get(&sets.strings, set.labels[i].key), key);
	assert_string_equal(intern_get(&sets.strings, set.labels[i].value), value);
}

static void slices_are_read(void **state)
{
	uint32_t id;

	put_slice(0, 10, 2);
	put_string(10, 1000, "user");
	put_string(12, 1100, "a b");
	put_string(14, 1200, "zone");
	put_string(16, 1300, "");
	id = read_one(BASE);
	assert_int_equal(label_sets_get(&sets, id).count, 2);
	assert_label(id, 0, "user", "a b");
	assert_label(id, 1, "zone", "");
	assert_int_equal(read_one(BASE), id);
}

static void missing_labels_are_the_empty_set(void **state)
{
	assert_int_equal(read_one(0), LABELS_NONE);
	put_slice(0, 10, 0);
	assert_int_equal(read_one(BASE), LABELS_NONE);
	assert_int_equal(label_sets_get(&sets, LABELS_NONE).count, 0);
}

static void labels_are_added_but_replace_none(void **state)
{
	const struct label_bytes added[] = {{"method", "GET", 3}, {"zone", "new", 3}};
	uint32_t own, both, alone;

	put_slice(0, 10, 1);
	put_string(10, 1000, "zone");
	put_string(12, 1100, "old");
	own = read_one(BASE);
	assert_null(label_sets_add(&sets, own, added, 2, &both));
	assert_int_equal(label_sets_get(&sets, both).count, 2);
	assert_label(both, 0, "method", "GET");
	assert_label(both, 1, "zone", "old");
	assert_int_equal(label_sets_get(&sets, own).count, 1);
	assert_null(label_sets_add(&sets, own, added, 2, &alone));
	assert_int_equal(alone, both);
	assert_null(label_sets_add(&sets, LABELS_NONE, added, 1, &alone));
	assert_int_equal(label_sets_get(&sets, alone).count, 1);
	assert_int_equal(label_sets_own(&sets, both), own);
	assert_int_equal(label_sets_own(&sets, own), own);
	assert_int_equal(label_sets_own(&sets, alone), LABELS_NONE);
	assert_null(label_sets_add(&sets, own, added, 0, &alone));
	assert_int_equal(alone, own);
}

static void garbage_is_torn(void **state)
{
	put_slice(0, 10, LABELS_MAX_COUNT + 1);
	assert_int_equal(read_one(BASE), LABELS_TORN);
	put_slice(0, 10, 1);
	memory.words[0] = 8; /* labels that cannot be read */
	assert_int_equal(read_one(BASE), LABELS_TORN);
	put_slice(0, 10, 1);
	put_string(10, 1000, "key");
	memory.words[12] = 8; /* a value that cannot be read */
	memory.words[13] = 5;
	assert_int_equal(read_one(BASE), LABELS_TORN);
	assert_int_equal(read_one(8), LABELS_TORN);
}

static void long_strings_are_cut(void **state)
{
	struct label_set set;

	put_slice(0, 10, 1);
	put_string(10, 1000, "key");
	memset(memory.bytes + 8192, 'x', 8192);
	memory.words[12] = BASE + 8192;
	memory.words[13] = 8192;
	set = label_sets_get(&sets, read_one(BASE));
	assert_int_equal(strlen(intern_get(&sets.strings, set.labels[0].value)), LABELS_MAX_STRING);
}

/* Memory that was freed and used again is not the set that was there. */
static void a_known_set_is_shown_only_as_long_as_all_of_it_is_the_same(void **state)
{
	uint32_t id, other;

	put_slice(0, 10, 1);
	put_string(10, 1000, "key");
	put_string(12, 1100, "first");
	id = read_one(BASE);
	assert_int_equal(read_one(BASE), id);

	memcpy(memory.bytes + 1100, "other", 5); /* the bytes of a string */
	other = read_one(BASE);
	assert_int_not_equal(other, id);
	assert_label(other, 0, "key", "other");
	assert_int_equal(read_one(BASE), other);

	put_string(20, 1000, "key"); /* the labels are elsewhere, and the old ones still there */
	put_string(22, 1300, "third");
	memory.words[0] = BASE + 20 * 8;
	assert_label(read_one(BASE), 0, "key", "third");

	memory.words[22] = BASE + 1100; /* a label that points elsewhere */
	assert_int_equal(read_one(BASE), other);

	put_slice(0, 10, 0);
	assert_int_equal(read_one(BASE), LABELS_NONE);
	memory.words[0] = 8;
	memory.words[1] = memory.words[2] = 1;
	assert_int_equal(read_one(BASE), LABELS_TORN);
	put_slice(0, 10, 1);
	assert_int_equal(read_one(BASE), other);
}

/* At BASE k=first, three words after it k=second. */
static void put_two_sets(void)
{
	put_slice(0, 10, 1);
	put_string(10, 1000, "k");
	put_string(12, 1100, "first");
	put_slice(3, 20, 1);
	put_string(20, 1200, "k");
	put_string(22, 1300, "second");
}

static void several_share_a_known_set(void **state)
{
	uint64_t pointers[] = {BASE, BASE + 3 * 8, BASE, 0, BASE};
	uint32_t ids[5];

	put_two_sets();
	for (int i = 0; i < 2; i++) {
		assert_null(label_sets_read(&sets, target, pointers, 5, ids));
		assert_label(ids[0], 0, "k", "first");
		assert_label(ids[1], 0, "k", "second");
		assert_int_equal(ids[2], ids[0]);
		assert_int_equal(ids[3], LABELS_NONE);
		assert_int_equal(ids[4], ids[0]);
	}
	memcpy(memory.bytes + 1300, "sEcond", 6);
	assert_null(label_sets_read(&sets, target, pointers, 5, ids));
	assert_label(ids[0], 0, "k", "first");
	assert_label(ids[1], 0, "k", "sEcond");
}

static void sets_that_are_too_large_to_be_kept_are_read_anew(void **state)
{
	put_slice(0, 10, 1);
	put_string(10, 1000, "key");
	memset(memory.bytes + 8192, 'x', 3000);
	memory.words[12] = BASE + 8192;
	memory.words[13] = 3000;
	assert_int_equal(read_one(BASE), read_one(BASE));
	memory.bytes[8192 + 2999] = 'y';
	assert_int_equal(intern_get(&sets.strings,
				    label_sets_get(&sets, read_one(BASE)).labels[0].value)[2999],
			 'y');
}

static void torn_ones_do_not_spoil_their_neighbours(void **state)
{
	uint64_t pointers[] = {BASE, 8, BASE + 3 * 8, 0};
	uint32_t ids[4];

	put_two_sets();
	assert_null(label_sets_read(&sets, target, pointers, 4, ids));
	assert_label(ids[0], 0, "k", "first");
	assert_int_equal(ids[1], LABELS_TORN);
	assert_label(ids[2], 0, "k", "second");
	assert_int_equal(ids[3], LABELS_NONE);
}

/* Go 1.23 and older: g.labels -> hmap at word 2, one bucket at word 100. */
static void put_map(uint8_t b, uint64_t count)
{
	memory.words[0] = BASE + 2 * 8;
	memory.words[2] = count;
	memory.bytes[2 * 8 + 9] = b;
	memory.words[4] = BASE + 100 * 8;
}

static void put_slot(size_t bucket, size_t i, const char *key, const char *value)
{
	memory.bytes[bucket * 8 + i] = 5 + i;
	put_string(bucket + 1 + 2 * i, 16384 + 512 * i, key);
	put_string(bucket + 17 + 2 * i, 16384 + 512 * i + 256, value);
}

static void maps_are_read_and_sorted(void **state)
{
	uint32_t id;

	sets.maps = true;
	put_map(0, 2);
	put_slot(100, 0, "zone", "eu");
	put_slot(100, 3, "user", "me");
	id = read_one(BASE);
	assert_int_equal(label_sets_get(&sets, id).count, 2);
	assert_label(id, 0, "user", "me");
	assert_label(id, 1, "zone", "eu");
}

static void a_known_map_is_shown_only_as_long_as_all_of_it_is_the_same(void **state)
{
	uint32_t id;

	sets.maps = true;
	put_map(0, 1);
	put_slot(100, 0, "user", "me");
	id = read_one(BASE);
	assert_int_equal(read_one(BASE), id);
	put_slot(100, 1, "zone", "eu"); /* in a bucket that was read */
	assert_int_equal(label_sets_get(&sets, read_one(BASE)).count, 2);
	memory.bytes[100 * 8 + 1] = 0;
	assert_int_equal(read_one(BASE), id);
	put_slot(200, 0, "user", "you"); /* in another bucket */
	memory.words[4] = BASE + 200 * 8;
	assert_label(read_one(BASE), 0, "user", "you");
	put_slot(300, 0, "user", "she"); /* in another map */
	memory.words[50] = 1;
	memory.words[52] = BASE + 300 * 8;
	memory.words[0] = BASE + 50 * 8;
	assert_label(read_one(BASE), 0, "user", "she");
}

static void maps_that_lie_end(void **state)
{
	sets.maps = true;
	put_map(0, 1);
	put_slot(100, 0, "k", "v");
	memory.words[100 + 33] = BASE + 100 * 8; /* its overflow bucket is itself */
	assert_label(read_one(BASE), 0, "k", "v");
	put_map(40, 1);
	assert_int_equal(read_one(BASE), LABELS_TORN);
	put_map(0, UINT64_MAX);
	assert_int_equal(read_one(BASE), LABELS_TORN);
}

/* A copy of the set {work: value} at BASE, with so many bytes of the value. */
static size_t copy_set(struct target_range *pieces, size_t value_size)
{
	static uint64_t slice[3], labels[4];
	static char key[4], value[1000];
	const struct target_range all[] = {{BASE, sizeof(slice), slice},
					   {BASE + 80, sizeof(labels), labels},
					   {BASE + 1000, sizeof(key), key},
					   {BASE + 2000, value_size, value}};

	for (size_t i = 0; i < 4; i++)
		memcpy(all[i].buffer, memory.bytes + (all[i].address - BASE), all[i].size);
	memcpy(pieces, all, sizeof(all));
	return 4;
}

static uint32_t read_copied(const struct target_range *pieces, size_t count)
{
	uint32_t id = 12345;

	assert_null(label_sets_read_copied(&sets, target, BASE, pieces, count, &id));
	return id;
}

static void a_copied_set_needs_no_memory(void **state)
{
	struct target_range pieces[4];
	size_t count;

	put_slice(0, 10, 1);
	put_string(10, 1000, "work");
	put_string(12, 2000, "list");
	count = copy_set(pieces, 4);
	memset(&memory, 0, sizeof(memory));
	assert_label(read_copied(pieces, count), 0, "work", "list");
}

static void uncopied_labels_are_read_while_the_set_is_unchanged(void **state)
{
	static char value[601];
	struct target_range pieces[4];
	size_t count;

	put_slice(0, 10, 1);
	put_string(10, 1000, "work");
	put_string(12, 2000, memset(value, 'x', 600));
	count = copy_set(pieces, 256);
	assert_label(read_copied(pieces, count), 0, "work", value);
	memory.bytes[2000 + 100] = 'y'; /* another request's */
	assert_int_equal(read_copied(pieces, count), LABELS_TORN);
	memory.bytes[2000 + 100] = 'x';
	memory.words[13] = 3;
	assert_int_equal(read_copied(pieces, count), LABELS_TORN);
}

/* A label that is different each time. */
static void a_flood_of_sets_ends(void **state)
{
	uint32_t first, id = 0;
	char value[16];

	put_slice(0, 10, 1);
	put_string(10, 1000, "trace");
	put_string(12, 1100, "00000000");
	first = read_one(BASE);
	for (unsigned int i = 1; i < LABELS_MAX_SETS + 10; i++) {
		snprintf(value, sizeof(value), "%08x", i);
		memcpy(memory.bytes + 1100, value, 8);
		id = read_one(BASE);
	}
	assert_int_equal(id, LABELS_NONE);
	assert_int_equal(sets.count, LABELS_MAX_SETS);
	assert_true(sets.dropped > 0);
	memcpy(memory.bytes + 1100, "00000000", 8);
	assert_int_equal(read_one(BASE), first);
}

#define LABEL_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LABEL_TEST(slices_are_read),
		LABEL_TEST(missing_labels_are_the_empty_set),
		LABEL_TEST(labels_are_added_but_replace_none),
		LABEL_TEST(garbage_is_torn),
		LABEL_TEST(long_strings_are_cut),
		LABEL_TEST(a_known_set_is_shown_only_as_long_as_all_of_it_is_the_same),
		LABEL_TEST(several_share_a_known_set),
		LABEL_TEST(sets_that_are_too_large_to_be_kept_are_read_anew),
		LABEL_TEST(torn_ones_do_not_spoil_their_neighbours),
		LABEL_TEST(maps_are_read_and_sorted),
		LABEL_TEST(a_known_map_is_shown_only_as_long_as_all_of_it_is_the_same),
		LABEL_TEST(maps_that_lie_end),
		LABEL_TEST(a_copied_set_needs_no_memory),
		LABEL_TEST(uncopied_labels_are_read_while_the_set_is_unchanged),
		LABEL_TEST(a_flood_of_sets_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
