/* The backlog between the thread that fills it and the one that takes from it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unit_test.h"
#include "collect/backlog.h"

enum { BLOCKS = 512, COLLECTIONS = 100000 };

static int make(void **state)
{
	struct backlog *b;

	if (error_dropped(backlog_create(BLOCKS, &b)))
		return -1;
	*state = b;
	return 0;
}

static int unmake(void **state)
{
	backlog_destroy(*state);
	return 0;
}

/* One of one or two blocks, by its number. */
static bool put_numbered(struct backlog *b, uint64_t number)
{
	struct block *first = backlog_free(b) >= 2 ? backlog_get(b) : NULL;

	if (!first)
		return false;
	first->about.watermark = number;
	if (number & 1) {
		first->next = backlog_get(b);
		memcpy(first->next->bytes, &number, sizeof(number));
	}
	backlog_put(b, first);
	return true;
}

static struct block *take(struct backlog *b)
{
	struct block *first;

	assert_null(backlog_take(b, &first));
	return first;
}

static void *put_all(void *arg)
{
	for (uint64_t i = 0; i < COLLECTIONS;)
		i += put_numbered(arg, i);
	return NULL;
}

static void release_all(struct backlog *b, struct block *block)
{
	for (struct block *next; block; block = next) {
		next = block->next;
		backlog_release(b, block);
	}
}

static void queue_keeps_the_order_between_threads(void **state)
{
	struct backlog *b = *state;
	pthread_t thread;
	uint64_t number;

	assert_int_equal(pthread_create(&thread, NULL, put_all, b), 0);
	for (uint64_t i = 0; i < COLLECTIONS;) {
		struct block *first;

		backlog_wait(b, 1000000000);
		first = take(b);
		if (!first)
			continue;
		assert_int_equal(first->about.watermark, i);
		if (i & 1) {
			memcpy(&number, first->next->bytes, sizeof(number));
			assert_int_equal(number, i);
		}
		release_all(b, first);
		i++;
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(backlog_fill(b) == 0);
	assert_int_equal(backlog_free(b), BLOCKS);
}

static void exhausted_blocks_yield_none(void **state)
{
	struct backlog *b = *state;
	uint64_t n = 0;

	while (put_numbered(b, n))
		n++;
	assert_true(backlog_fill(b) > 0.99);
	while (backlog_free(b))
		assert_non_null(backlog_get(b));
	assert_null(backlog_get(b));
	release_all(b, take(b));
	assert_non_null(backlog_get(b));
}

static void empty_queue_waits_until_the_timeout(void **state)
{
	uint64_t began = clock_now();

	assert_false(backlog_is_awaited(*state));
	backlog_wait(*state, 2000000);
	assert_true(clock_now() - began >= 2000000);
	assert_null(take(*state));
	assert_true(backlog_is_awaited(*state));
	put_numbered(*state, 0);
	assert_non_null(take(*state));
	assert_false(backlog_is_awaited(*state));
}

static void age_is_that_of_what_was_taken_last(void **state)
{
	struct backlog *b = *state;
	struct block *first = backlog_get(b);

	assert_int_equal(backlog_age(b), 0);
	first->about.ns = clock_now() - 5000000000;
	backlog_put(b, first);
	assert_in_range(backlog_age(b), 0, 4000000000);
	put_numbered(b, 0);
	assert_ptr_equal(take(b), first);
	assert_true(backlog_age(b) >= 5000000000);
	assert_non_null(take(b));
	assert_int_equal(backlog_age(b), 0);
}

/* ---- with a file ---- */

enum { FILE_BYTES = 64 << 20 };

static int make_with_file(void **state)
{
	char folder[] = "/tmp/gospect-test-XXXXXX";
	int file = mkstemp(folder);

	unlink(folder);
	return make(state) || file < 0 || error_dropped(backlog_use_file(*state, file, FILE_BYTES));
}

/* A full block, of two pieces. */
static bool put_full(struct backlog *b, uint64_t number)
{
	struct block *first = backlog_free(b) ? backlog_get(b) : NULL;

	if (!first)
		return false;
	first->about.watermark = number;
	first->piece_count = 2;
	first->used = BLOCK_BYTES;
	memset(first->bytes, (int)number, BLOCK_BYTES);
	for (uint32_t i = 0; i < 2; i++)
		first->pieces[i] = (struct piece){.block = first,
						  .bytes = first->bytes + i * BLOCK_BYTES / 2,
						  .size = BLOCK_BYTES / 2,
						  .slot = i};
	backlog_put(b, first);
	return true;
}

static void assert_full(struct block *block, uint64_t number)
{
	assert_int_equal(block->about.watermark, number);
	assert_int_equal(block->used, BLOCK_BYTES);
	assert_null(block->next);
	for (uint32_t i = 0; i < 2; i++) {
		const struct piece *p = &block->pieces[i];

		assert_ptr_equal(p->block, block);
		assert_ptr_equal(p->bytes, block->bytes + i * BLOCK_BYTES / 2);
		assert_int_equal(p->slot, i);
	}
	assert_int_equal(block->bytes[0], (uint8_t)number);
	assert_int_equal(block->bytes[BLOCK_BYTES - 1], (uint8_t)number);
}

static struct block *await(struct backlog *b)
{
	struct block *first = take(b);

	for (int i = 0; !first && i < 1000; i++) {
		backlog_wait(b, 10000000);
		first = take(b);
	}
	assert_non_null(first);
	return first;
}

/* More than memory holds; in the second round, behind the part of the file that was read. */
static void spilled_records_return_in_order(void **state)
{
	enum { COUNT = BLOCKS + BLOCKS / 2 };
	struct backlog *b = *state;
	size_t read = 0;

	for (int round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < COUNT;) {
			if (put_full(b, i))
				i++;
			else
				usleep(1000);
		}
		for (uint64_t i = 0; i < COUNT; i++) {
			struct block *block = await(b);

			assert_full(block, i);
			read += block->in_heap;
			backlog_release(b, block);
		}
		assert_null(take(b));
		assert_int_equal(backlog_bytes(b), 0);
	}
	assert_true(read >= 3 * (COUNT - BLOCKS));
	assert_int_equal(backlog_free(b), BLOCKS);
	assert_int_equal(backlog_file_failed(b), 0);
}

static void full_disk_keeps_records_in_memory(void **state)
{
	struct backlog *b = *state;
	int full = open("/dev/full", O_RDWR);
	uint64_t n = 0;

	assert_null(backlog_use_file(b, full, FILE_BYTES));
	while (put_full(b, n))
		n++;
	assert_int_equal(n, BLOCKS);
	for (uint64_t i = 0; i < n; i++) {
		struct block *block = await(b);

		assert_full(block, i);
		backlog_release(b, block);
	}
	assert_int_equal(backlog_file_failed(b), ENOSPC);
	assert_true(backlog_fill(b) == 0);
}

static void a_file_that_is_full_takes_more_when_some_was_read(void **state)
{
	struct backlog *b = *state;
	uint64_t put = 0, taken = 0;

	while (put_full(b, put) || usleep(20000) || put_full(b, put))
		put++;
	assert_true(put > BLOCKS);
	assert_true(backlog_fill(b) > 0.9);
	for (; taken < put / 2; taken++)
		backlog_release(b, await(b));
	while (put_full(b, put) || usleep(20000) || put_full(b, put))
		put++;
	for (; taken < put; taken++) {
		struct block *block = await(b);

		assert_full(block, taken);
		backlog_release(b, block);
	}
}

static size_t resident_pages(struct block *const *blocks, size_t count)
{
	unsigned char pages[sizeof(struct block) / 4096 + 1];
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		assert_int_equal(mincore(blocks[i], sizeof(struct block), pages), 0);
		for (size_t k = 0; k < sizeof(pages); k++)
			n += pages[k] & 1;
	}
	return n;
}

static void memory_that_nobody_needs_any_more_goes_back_to_the_system(void **state)
{
	struct backlog *b = *state;
	struct block *blocks[BLOCKS];
	size_t used;

	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = backlog_get(b);
		memset(blocks[i]->bytes, 1, sizeof(blocks[i]->bytes));
	}
	used = resident_pages(blocks, BLOCKS);
	for (size_t i = 0; i < BLOCKS; i++)
		backlog_release(b, blocks[i]);
	for (int i = 0; i < 100; i++)
		backlog_trim(b);
	assert_int_equal(backlog_free(b), BLOCKS);
	assert_in_range(resident_pages(blocks, BLOCKS), used / 4, used * 3 / 4);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)
#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, make_with_file, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(queue_keeps_the_order_between_threads),
		TEST(exhausted_blocks_yield_none),
		TEST(empty_queue_waits_until_the_timeout),
		TEST(age_is_that_of_what_was_taken_last),
		WITH_FILE(spilled_records_return_in_order),
		TEST(full_disk_keeps_records_in_memory),
		WITH_FILE(a_file_that_is_full_takes_more_when_some_was_read),
		TEST(memory_that_nobody_needs_any_more_goes_back_to_the_system),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
