/* Making events of records and stacks that a hostile target has written. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/unit_test.h"
#include "collect/decode.h"
#include "tests/made_runtime.h"

enum { SLOTS = 1 + AGENT_SPARE_SLOTS, ARENA_WORDS = 1024 };

struct made {
	struct made_runtime runtime;
	struct agent_shared *shared;
	struct agent_shared layout;
	struct drain *drain;
	struct decoder *decoder;
};

static int make(void **state)
{
	struct made *d = calloc(1, sizeof(*d));
	struct agent_shared *l = &d->layout;
	struct backlog *none = NULL;

	made_runtime_init(&d->runtime, 27, 1);
	l->slots = SLOTS;
	l->table_offset = 4096;
	l->arena_offset = l->table_offset + AGENT_TABLE_SLOTS * sizeof(struct agent_stack);
	l->arena_words = ARENA_WORDS;
	l->size = l->arena_offset + ARENA_WORDS * sizeof(uint64_t);
	d->shared = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*state = d;
	if (d->shared == MAP_FAILED || error_dropped(drain_create(d->shared, l, none, &d->drain)))
		return -1;
	return error_dropped(decoder_create(&d->runtime.base, &d->runtime.img, &d->runtime.lay, l,
					    d->drain, &d->decoder));
}

static int unmake(void **state)
{
	struct made *d = *state;

	decoder_destroy(d->decoder);
	drain_destroy(d->drain);
	munmap(d->shared, d->layout.size);
	made_runtime_release(&d->runtime);
	free(d);
	return 0;
}

/* So many words at this place of the arena are stack 1. */
static uint64_t *make_stack(struct made *d, uint64_t place, uint64_t count)
{
	uint8_t *base = (uint8_t *)d->shared;
	struct agent_stack *table = (void *)(base + d->layout.table_offset);
	uint64_t *arena = (void *)(base + d->layout.arena_offset);

	arena[place] = count;
	table[0].offset = place + 1;
	return &arena[place + 1];
}

/* The stack with which goroutine 7 blocks. */
static struct stack block_on(struct made *d, uint64_t stack)
{
	struct drain_record record = {.kind = RECORD_BLOCK, .numbers = {7, stack, 0}};
	struct trace_event events[DECODE_MAX_EVENTS];
	size_t count;

	assert_null(decoder_events(d->decoder, &record, 1, events, &count));
	assert_int_equal(count, 1);
	return stacks_get(decoder_stacks(d->decoder), events[0].stack);
}

static void a_stack_of_nothing_but_missing_frames_is_twice_as_long(void **state)
{
	struct made *d = *state;
	uint64_t *words = make_stack(d, 0, DRAIN_STACK_WORDS);
	struct stack stack;

	for (size_t i = 0; i < DRAIN_STACK_WORDS; i++)
		words[i] = AGENT_WORD_CUT | 0x424242420000 | i;
	stack = block_on(d, 1);
	assert_int_equal(stack.count, 2 * DRAIN_STACK_WORDS);
	assert_true(stack.pcs[0] == STACK_PC_TRUNCATED);
	assert_true(stack.pcs[1] == (0x424242420000 | STACK_PC_EXACT));
}

static void a_stack_at_the_arenas_end_has_the_words_that_are_there(void **state)
{
	struct made *d = *state;

	make_stack(d, ARENA_WORDS - 2, 1)[0] = 0x1000;
	assert_int_equal(block_on(d, 1).count, 1);
}

static void a_stack_beyond_the_arena_is_none(void **state)
{
	struct made *d = *state;

	make_stack(d, ARENA_WORDS - 2, 2)[0] = 0x1000;
	assert_int_equal(block_on(d, 1).count, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_stack_of_nothing_but_missing_frames_is_twice_as_long),
		TEST(a_stack_at_the_arenas_end_has_the_words_that_are_there),
		TEST(a_stack_beyond_the_arena_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
