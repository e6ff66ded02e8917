#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "heapgraph/heap_objects.h"
#include "target/callback_memory.h"

#define HEAP 0xc000000000ull
#define TYPES 0x500000ull
#define MHEAP 0x600000ull
#define ARENAS 0x700000ull
#define ARENA 0x800000ull
/* (0xc000000000 + 2^47) / 64 MB */
#define ARENA_NUMBER ((HEAP + (1ull << 47)) >> 26)

/* Pieces of the target's memory. */
static uint8_t heap[64 << 10], types[4096], mheap[128 << 10], arena[4 << 20];
static struct golayout lay;
static struct image image;
static struct target *target;
static struct heap_objects objects;
static uint64_t found[1024];
static size_t found_count;

static int read_memory(void *arg, uint64_t address, void *buffer, size_t size)
{
	const uint64_t table = ARENA;
	const struct {
		uint64_t start;
		const void *bytes;
		size_t size;
	} pieces[] = {{HEAP, heap, sizeof(heap)},
		      {TYPES, types, sizeof(types)},
		      {MHEAP, mheap, sizeof(mheap)},
		      {ARENAS + ARENA_NUMBER * 8, &table, sizeof(table)},
		      {ARENA, arena, sizeof(arena)}};

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		if (address < pieces[i].start || size > pieces[i].size ||
		    address - pieces[i].start > pieces[i].size - size)
			continue;
		memcpy(buffer, (const uint8_t *)pieces[i].bytes + (address - pieces[i].start),
		       size);
		return 0;
	}
	return 1;
}

static void put(uint8_t *bytes, size_t at, uint64_t value)
{
	memcpy(bytes + at, &value, sizeof(value));
}

static void begin(int minor, char *version)
{
	const struct golayout_numbers *n = golayout_table(minor, 99);

	assert_non_null(n);
	memset(heap, 0, sizeof(heap));
	memset(types, 0, sizeof(types));
	memset(mheap, 0, sizeof(mheap));
	memset(arena, 0, sizeof(arena));
	lay = (struct golayout){.minor = minor, .n = *n};
	image = (struct image){.machine = MACHINE_AMD64, .info.version = version};
	put(mheap, (size_t)n->heap_arenas, ARENAS);
	/* Each word has its address: so a visit says what was read. */
	for (size_t i = 0; i < sizeof(heap); i += 8)
		put(heap, i, HEAP + i);
	assert_null(target_open_callback(&(struct target_callbacks){.read = read_memory,
								    .exe = "program"},
					 &target));
	assert_null(heap_objects_open(target, &image, &lay, MHEAP, &objects));
	found_count = 0;
}

static void end(void)
{
	heap_objects_release(&objects);
	target_close(target);
}

static void note(void *arg, uint64_t slot, uint64_t value)
{
	assert_true(found_count < ARRAY_SIZE(found));
	found[found_count++] = slot;
}

static bool all(void *arg, struct heap_object object, const uint8_t *bytes, size_t size)
{
	return true;
}

static void visit(struct object_span *span)
{
	const struct heap_choice choice = {all, NULL};
	const struct heap_visit how = {note, NULL};

	assert_null(heap_objects_visit(&objects, &span, 1, &choice, &how));
}

static struct object_span span_of(uint64_t size, uint64_t pages, uint8_t size_class)
{
	return (struct object_span){.start = HEAP,
				    .end = HEAP + pages * HEAP_PAGE,
				    .object_size = size,
				    .count = (uint32_t)(pages * HEAP_PAGE / size),
				    .size_class = size_class};
}

static void set_bit(uint8_t *bits, size_t i)
{
	bits[i / 8] |= 1 << i % 8;
}

static void test_small_objects_have_a_bitmap_at_the_end_of_their_span(void **state)
{
	static const struct {
		int minor;
		char *version;
		size_t bitmap;
	} cases[] = {{22, "go1.22.12", 8192 - 128},
		     {26, "go1.26.0", 8192 - 128 - 128},
		     {26, "go1.26.0 X:nogreenteagc", 8192 - 128}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct object_span span = span_of(48, 1, 5);

		begin(cases[i].minor, cases[i].version);
		span.count = 10;
		memset(heap + 8192 - 256, 0, 256);
		set_bit(heap + cases[i].bitmap, 0);
		set_bit(heap + cases[i].bitmap, 6 * 9 + 5);
		set_bit(heap + cases[i].bitmap, 6 * 10); /* of the eleventh object */
		visit(&span);
		assert_int_equal(found_count, 2);
		assert_int_equal(found[0], HEAP);
		assert_int_equal(found[1], HEAP + 9 * 48 + 40);
		end();
	}
}

/* A type of so many bytes, with pointers in its first and third word. */
static void put_type(size_t at, uint64_t size, uint64_t pointer_bytes)
{
	put(types, at, size);
	put(types, at + 8, pointer_bytes);
	put(types, at + 32, TYPES + at + 64);
	types[at + 64] = 5;
}

static void test_larger_objects_begin_with_their_type(void **state)
{
	struct object_span span = span_of(1024, 1, 30);

	begin(27, "go1.27.2");
	for (size_t i = 0; i < 8; i++)
		put(heap, i * 1024, 0);
	put(heap, 1024, TYPES);
	put_type(0, 400, 24);
	visit(&span);
	/* Behind the header lie two elements of 400 bytes and the beginning of a third. */
	assert_int_equal(found_count, 6);
	assert_int_equal(found[0], HEAP + 1024 + 8);
	assert_int_equal(found[1], HEAP + 1024 + 8 + 16);
	assert_int_equal(found[5], HEAP + 1024 + 8 + 816);
	end();
}

static void test_large_objects_have_their_type_in_the_span(void **state)
{
	struct object_span span = span_of(6 * HEAP_PAGE, 6, 0);

	begin(24, "go1.24.4");
	span.large_type = TYPES;
	put_type(0, 3 * HEAP_PAGE, 24);
	visit(&span);
	assert_int_equal(found_count, 4);
	assert_int_equal(found[2], HEAP + 3 * HEAP_PAGE);
	end();
}

static void test_words_of_an_unknown_type_may_all_be_pointers(void **state)
{
	struct object_span span = span_of(1024, 1, 30);
	static const uint64_t sizes[][2] = {{0, 0}, {1ull << 60, 8}, {64, 1ull << 60}, {64, 9}};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		begin(27, "go1.27.2");
		span.count = 1;
		put(heap, 0, TYPES);
		put_type(0, sizes[i][0], sizes[i][1]);
		visit(&span);
		assert_int_equal(found_count, 1024 / 8 - 1);
		end();
	}
}

static void test_two_bits_a_word_are_in_the_arena_up_to_1_19(void **state)
{
	struct object_span span = span_of(64, 1, 6);
	uint8_t *bits = arena;

	begin(19, "go1.19.13");
	/* The first object: a pointer, a scalar, a pointer, and no more. */
	bits[0] = 0x70 | 0x5;
	/* The second has none, although a bit is left from an object before. */
	bits[2] = 0x01;
	visit(&span);
	assert_int_equal(found_count, 2);
	assert_int_equal(found[0], HEAP);
	assert_int_equal(found[1], HEAP + 16);
	end();
}

static void test_one_bit_a_word_is_in_the_arena_in_1_20_and_1_21(void **state)
{
	struct object_span span = span_of(1024, 1, 30);

	begin(21, "go1.21.13");
	span.count = 1;
	set_bit(arena, 1);
	set_bit(arena, 64); /* behind the mark that there are no more */
	arena[lay.n.arena_no_more] = 1;
	visit(&span);
	assert_int_equal(found_count, 1);
	assert_int_equal(found[0], HEAP + 8);
	arena[lay.n.arena_no_more] = 0;
	found_count = 0;
	visit(&span);
	assert_int_equal(found_count, 2);
	end();
}

static void test_memory_that_cannot_be_read_is_counted(void **state)
{
	struct object_span span = span_of(64, 1, 6);

	begin(27, "go1.27.2");
	span.start += 1ull << 30;
	span.end += 1ull << 30;
	visit(&span);
	assert_int_equal(found_count, 0);
	assert_int_equal(objects.unread, HEAP_PAGE);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_objects_have_a_bitmap_at_the_end_of_their_span),
		cmocka_unit_test(test_larger_objects_begin_with_their_type),
		cmocka_unit_test(test_large_objects_have_their_type_in_the_span),
		cmocka_unit_test(test_words_of_an_unknown_type_may_all_be_pointers),
		cmocka_unit_test(test_two_bits_a_word_are_in_the_arena_up_to_1_19),
		cmocka_unit_test(test_one_bit_a_word_is_in_the_arena_in_1_20_and_1_21),
		cmocka_unit_test(test_memory_that_cannot_be_read_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
