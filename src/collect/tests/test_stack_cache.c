/* Stacks out of shared memory, whatever stands there. */
#include <stdlib.h>

#include "base/unit_test.h"
#include "collect/stack_cache.h"

#define ARENA_WORDS 512

struct made {
	struct agent_shared layout;
	struct stack_cache cache;
	struct agent_stack *table;
	uint64_t *arena;
};

static int make(void **state)
{
	struct made *d = calloc(1, sizeof(*d));
	struct agent_shared *l = &d->layout;
	uint8_t *shared;

	l->table_offset = 4096;
	l->arena_offset = l->table_offset + AGENT_TABLE_SLOTS * sizeof(struct agent_stack);
	l->arena_words = ARENA_WORDS;
	l->size = l->arena_offset + ARENA_WORDS * sizeof(uint64_t);
	shared = calloc(1, l->size);
	d->cache = (struct stack_cache){(void *)shared, l};
	d->table = (void *)(shared + l->table_offset);
	d->arena = (void *)(shared + l->arena_offset);
	*state = d;
	return 0;
}

static int unmake(void **state)
{
	struct made *d = *state;

	free((void *)d->cache.shared);
	free(d);
	return 0;
}

static void a_stack_is_the_words_behind_their_count(void **state)
{
	struct made *d = *state;
	uint64_t words[STACK_CACHE_WORDS];

	d->arena[0] = 2;
	d->arena[1] = 0x1001;
	d->arena[2] = 0x1002;
	d->table[4].offset = 1;
	assert_int_equal(stack_cache_read(&d->cache, 5, words), 2);
	assert_int_equal(words[0], 0x1001);
	assert_int_equal(words[1], 0x1002);
}

static void numbers_without_a_stack_are_none(void **state)
{
	struct made *d = *state;
	uint64_t words[STACK_CACHE_WORDS];

	assert_int_equal(stack_cache_read(&d->cache, 0, words), 0);
	assert_int_equal(stack_cache_read(&d->cache, 6, words), 0);
	assert_int_equal(stack_cache_read(&d->cache, AGENT_TABLE_SLOTS + 1, words), 0);
	assert_int_equal(stack_cache_read(&d->cache, UINT64_MAX, words), 0);
}

static void stacks_that_cannot_be_are_none(void **state)
{
	struct made *d = *state;
	uint64_t words[STACK_CACHE_WORDS];

	d->table[5].offset = 1ull << 50;
	assert_int_equal(stack_cache_read(&d->cache, 6, words), 0);
	d->table[5].offset = ARENA_WORDS - 1; /* its words would lie behind the arena */
	d->arena[ARENA_WORDS - 2] = 100;
	assert_int_equal(stack_cache_read(&d->cache, 6, words), 0);
	d->arena[0] = STACK_CACHE_WORDS + 1;
	d->table[4].offset = 1;
	assert_int_equal(stack_cache_read(&d->cache, 5, words), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_stack_is_the_words_behind_their_count),
		TEST(numbers_without_a_stack_are_none),
		TEST(stacks_that_cannot_be_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
