#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "tests/made_functions.h"
#include "unwind/frames.h"
#include "unwind/stacks.h"

enum { LEAF, MIDDLE, ROOT, GOEXIT, SIGPANIC, GOGO, FUNCTIONS };

static const struct made_function functions[FUNCTIONS] = {
	[LEAF] = {"main.leaf", NULL, 16, 0, 0},
	[MIDDLE] = {"main.middle", NULL, 40, 0, 0},
	[ROOT] = {"main.root", NULL, 8, 0, 0},
	[GOEXIT] = {"runtime.goexit", NULL, 0, FUNC_TOPFRAME, 0},
	[SIGPANIC] = {"runtime.sigpanic", NULL, 24, 0, 0},
	[GOGO] = {"runtime.gogo", NULL, 8, FUNC_SPWRITE, 0},
};

struct fixture {
	struct made_functions made;
	struct stacks *stacks;
};

static int set_up(void **state)
{
	static struct fixture f;

	made_functions_init(&f.made, PCLNTAB_GO120, functions, FUNCTIONS);
	f.stacks = stacks_create(&f.made.tab, MACHINE_AMD64);
	*state = &f;
	return f.stacks ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	stacks_destroy(f->stacks);
	made_functions_release(&f->made);
	return 0;
}

static void past_the_limit_only_known_stacks_have_a_number_of_their_own(void **state)
{
	struct fixture *f = *state;
	const uint64_t known[] = {0x11, 0x12, 0x13, 0x14}, new[] = {0x21, 0x22, 0x23, 0x24},
		       other[] = {0x31, 0x32, 0x23, 0x24};
	uint32_t first, again, a, b;
	struct stack s;

	stacks_limit(f->stacks, 4);
	assert_null(stacks_intern(f->stacks, known, 4, &first));
	assert_int_equal(stacks_dropped(f->stacks), 0);
	assert_null(stacks_intern(f->stacks, new, 4, &a));
	assert_null(stacks_intern(f->stacks, other, 4, &b));
	assert_null(stacks_intern(f->stacks, known, 4, &again));
	assert_int_equal(stacks_dropped(f->stacks), 2);
	assert_int_equal(first, again);
	assert_int_not_equal(a, first);
	assert_int_equal(a, b);
	s = stacks_get(f->stacks, a);
	assert_int_equal(s.count, 3);
	assert_int_equal(s.pcs[0], STACK_PC_OTHER);
	assert_int_equal(s.pcs[1], 0x23);
	assert_int_equal(s.pcs[2], 0x24);
}

/* A stack of words: after each function's frame, the return address into the next one. */
struct made_stack {
	uint64_t words[64];
	size_t count;
};

static void push_frame(struct made_stack *s, size_t frame, uint64_t return_address)
{
	for (size_t i = 0; i < frame / 8; i++)
		s->words[s->count++] = 0x1111;
	s->words[s->count++] = return_address;
}

static struct made_stack leaf_to_goexit(void)
{
	struct made_stack s = {.count = 0};

	push_frame(&s, 16, made_pc(MIDDLE, false));
	push_frame(&s, 40, made_pc(ROOT, false));
	push_frame(&s, 8, MADE_TEXT + GOEXIT * MADE_SIZE + 1);
	return s;
}

static struct stack_memory memory_of(const struct made_stack *s, uint64_t pc)
{
	return (struct stack_memory){
		.pc = pc,
		.sp = 0xc000000000,
		.start_pc = MADE_TEXT + ROOT * MADE_SIZE,
		.bytes = (const uint8_t *)s->words,
		.size = s->count * 8,
		.whole = true,
	};
}

static struct stack unwind(struct fixture *f, const struct stack_memory *m)
{
	uint32_t id;

	assert_null(stacks_unwind(f->stacks, m, &id));
	return stacks_get(f->stacks, id);
}

static void a_whole_stack_ends_at_goexit(void **state)
{
	struct made_stack s = leaf_to_goexit();
	struct stack_memory m = memory_of(&s, made_pc(LEAF, false));
	struct stack stack = unwind(*state, &m);

	assert_int_equal(stack.count, 4);
	assert_int_equal(stack.pcs[0], made_pc(LEAF, false));
	assert_int_equal(stack.pcs[1], made_pc(MIDDLE, false));
	assert_int_equal(stack.pcs[2], made_pc(ROOT, false));
	assert_int_equal(stack.pcs[3], MADE_TEXT + GOEXIT * MADE_SIZE + 1);
	assert_false(stack.truncated);
}

static void the_same_stack_has_the_same_number(void **state)
{
	struct fixture *f = *state;
	struct made_stack s = leaf_to_goexit();
	struct stack_memory m = memory_of(&s, made_pc(LEAF, false));
	uint32_t first, again, other;

	assert_null(stacks_unwind(f->stacks, &m, &first));
	s.words[0] = 0x2222; /* a local variable */
	assert_null(stacks_unwind(f->stacks, &m, &again));
	assert_int_equal(first, again);
	s.words[2] = made_pc(MIDDLE, true); /* another call in the same function */
	assert_null(stacks_unwind(f->stacks, &m, &other));
	assert_int_not_equal(first, other);
	assert_int_equal(stacks_count(f->stacks), 2);
}

static void unwinding_in_a_prologue_finds_the_caller(void **state)
{
	struct made_stack s = {.count = 0};
	struct stack_memory m;
	struct stack stack;

	push_frame(&s, 0, made_pc(ROOT, false));
	push_frame(&s, 8, MADE_TEXT + GOEXIT * MADE_SIZE + 1);
	m = memory_of(&s, MADE_TEXT + LEAF * MADE_SIZE);
	stack = unwind(*state, &m);
	assert_int_equal(stack.count, 3);
	assert_int_equal(stack.pcs[0], (MADE_TEXT + LEAF * MADE_SIZE) | STACK_PC_EXACT);
	assert_int_equal(stack.pcs[1], made_pc(ROOT, false));
}

static void unwinding_through_a_signal_is_exact(void **state)
{
	struct made_stack s = {.count = 0};
	struct stack_memory m;
	struct stack stack;

	push_frame(&s, 24, made_pc(ROOT, false));
	push_frame(&s, 8, MADE_TEXT + GOEXIT * MADE_SIZE + 1);
	m = memory_of(&s, made_pc(SIGPANIC, false));
	stack = unwind(*state, &m);
	assert_int_equal(stack.count, 3);
	assert_int_equal(stack.pcs[1], made_pc(ROOT, false) | STACK_PC_EXACT);
	assert_int_equal(stack.pcs[2], MADE_TEXT + GOEXIT * MADE_SIZE + 1);
}

static void bytes_that_lead_nowhere_are_no_stack(void **state)
{
	struct fixture *f = *state;
	struct made_stack s = leaf_to_goexit();
	struct stack_memory m = memory_of(&s, made_pc(LEAF, false));
	uint32_t id;

	s.words[2] = 0xdeadbeef;
	assert_null(stacks_unwind(f->stacks, &m, &id));
	assert_int_equal(id, STACK_NONE);
	s = leaf_to_goexit();
	m.size -= 8; /* the whole stack is there, and goexit is not reached */
	assert_null(stacks_unwind(f->stacks, &m, &id));
	assert_int_equal(id, STACK_NONE);
	m.pc = 0;
	assert_null(stacks_unwind(f->stacks, &m, &id));
	assert_int_equal(id, STACK_NONE);
}

static void a_stack_cut_short_keeps_its_start_function(void **state)
{
	struct made_stack s = leaf_to_goexit();
	struct stack_memory m = memory_of(&s, made_pc(LEAF, false));
	struct stack stack;

	m.size = 24;
	m.whole = false;
	stack = unwind(*state, &m);
	assert_true(stack.truncated);
	assert_int_equal(stack.count, 4);
	assert_int_equal(stack.pcs[1], made_pc(MIDDLE, false));
	assert_int_equal(stack.pcs[2], STACK_PC_TRUNCATED);
	assert_int_equal(stack.pcs[3], m.start_pc | STACK_PC_EXACT);
	m.start_pc = MADE_TEXT + MIDDLE * MADE_SIZE;
	stack = unwind(*state, &m);
	assert_int_equal(stack.pcs[3], m.start_pc | STACK_PC_EXACT);
}

static void nobody_unwinds_past_a_function_that_moves_sp(void **state)
{
	struct made_stack s = {.count = 0};
	struct stack_memory m;
	struct stack stack;

	push_frame(&s, 16, made_pc(GOGO, false));
	push_frame(&s, 8, made_pc(ROOT, false));
	push_frame(&s, 8, MADE_TEXT + GOEXIT * MADE_SIZE + 1);
	m = memory_of(&s, made_pc(LEAF, false));
	stack = unwind(*state, &m);
	assert_true(stack.truncated);
	assert_int_equal(stack.pcs[1], made_pc(GOGO, false));
	assert_int_equal(stack.pcs[2], STACK_PC_TRUNCATED);
}

static void a_stack_that_runs_in_circles_ends(void **state)
{
	static uint64_t words[STACK_MAX_FRAMES * 2 + 64];
	struct stack_memory m = {
		.pc = made_pc(ROOT, false),
		.bytes = (const uint8_t *)words,
		.size = sizeof(words),
		.whole = true,
	};
	struct stack stack;

	for (size_t i = 0; i < sizeof(words) / 8; i++)
		words[i] = made_pc(ROOT, false);
	stack = unwind(*state, &m);
	assert_true(stack.truncated);
	assert_true(stack.count <= STACK_MAX_FRAMES + 2);
}

/* arm64: the return address lies at SP, the caller's SP is `frame` above. */
static void arm64_finds_its_return_addresses_at_sp(void **state)
{
	struct fixture *f = *state;
	struct stacks *stacks = stacks_create(&f->made.tab, MACHINE_ARM64);
	uint64_t words[] = {made_pc(MIDDLE, false),
			    0x1111,
			    made_pc(ROOT, false),
			    1,
			    2,
			    3,
			    4,
			    MADE_TEXT + GOEXIT * MADE_SIZE + 4};
	struct stack_memory m = {
		.pc = made_pc(LEAF, false),
		.bytes = (const uint8_t *)words,
		.size = sizeof(words),
		.whole = true,
	};
	struct stack stack;
	uint32_t id;

	assert_null(stacks_unwind(stacks, &m, &id));
	stack = stacks_get(stacks, id);
	assert_int_equal(stack.count, 4);
	assert_int_equal(stack.pcs[2], made_pc(ROOT, false));
	m.pc = MADE_TEXT + LEAF * MADE_SIZE; /* never ran: goexit is in LR */
	m.lr = MADE_TEXT + GOEXIT * MADE_SIZE + 4;
	assert_null(stacks_unwind(stacks, &m, &id));
	stack = stacks_get(stacks, id);
	assert_int_equal(stack.count, 2);
	assert_int_equal(stack.pcs[1], m.lr);
	stacks_destroy(stacks);
}

static void frames_say_where_they_lie(void **state)
{
	struct fixture *f = *state;
	struct made_stack s = leaf_to_goexit();
	struct stack_memory m = memory_of(&s, made_pc(LEAF, false));
	_cleanup_frames_ struct frames frames = {0};

	assert_null(frames_unwind(&f->made.tab, MACHINE_AMD64, &m, &frames));
	assert_int_equal(frames.end, FRAMES_WHOLE);
	assert_int_equal(frames.count, 4);
	assert_int_equal(frames.items[0].sp, m.sp);
	assert_int_equal(frames.items[0].return_at, m.sp + 16);
	assert_int_equal(frames.items[0].cfa, m.sp + 24);
	assert_int_equal(frames.items[1].sp, m.sp + 24);
	assert_int_equal(frames.items[1].return_at, m.sp + 24 + 40);
	assert_int_equal(frames.items[3].sp, m.sp + s.count * 8);
	assert_int_equal(frames.items[3].cfa, 0);
}

static void frames_of_a_torn_stack_end_where_it_makes_no_sense(void **state)
{
	struct fixture *f = *state;
	struct made_stack s = leaf_to_goexit();
	struct stack_memory m = memory_of(&s, made_pc(LEAF, false));
	_cleanup_frames_ struct frames frames = {0};

	s.words[8] = 0x12345;
	assert_null(frames_unwind(&f->made.tab, MACHINE_AMD64, &m, &frames));
	assert_int_equal(frames.end, FRAMES_TORN);
	assert_int_equal(frames.count, 2);
}

static void frames_of_arm64_have_their_return_address_at_sp(void **state)
{
	struct fixture *f = *state;
	uint64_t words[6] = {made_pc(ROOT, false), 1, MADE_TEXT + GOEXIT * MADE_SIZE + 4};
	struct stack_memory m = {.pc = made_pc(LEAF, false),
				 .sp = 0x4000000000,
				 .bytes = (const uint8_t *)words,
				 .size = sizeof(words),
				 .whole = true};
	_cleanup_frames_ struct frames frames = {0};

	assert_null(frames_unwind(&f->made.tab, MACHINE_ARM64, &m, &frames));
	assert_int_equal(frames.end, FRAMES_WHOLE);
	assert_int_equal(frames.count, 3);
	assert_int_equal(frames.items[0].return_at, m.sp);
	assert_int_equal(frames.items[0].cfa, m.sp + 16);
	assert_int_equal(frames.items[1].return_at, m.sp + 16);
	assert_int_equal(frames.items[1].cfa, m.sp + 24);
}

#define STACK_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STACK_TEST(a_whole_stack_ends_at_goexit),
		STACK_TEST(the_same_stack_has_the_same_number),
		STACK_TEST(past_the_limit_only_known_stacks_have_a_number_of_their_own),
		STACK_TEST(unwinding_in_a_prologue_finds_the_caller),
		STACK_TEST(unwinding_through_a_signal_is_exact),
		STACK_TEST(bytes_that_lead_nowhere_are_no_stack),
		STACK_TEST(a_stack_cut_short_keeps_its_start_function),
		STACK_TEST(nobody_unwinds_past_a_function_that_moves_sp),
		STACK_TEST(a_stack_that_runs_in_circles_ends),
		STACK_TEST(arm64_finds_its_return_addresses_at_sp),
		STACK_TEST(frames_say_where_they_lie),
		STACK_TEST(frames_of_a_torn_stack_end_where_it_makes_no_sense),
		STACK_TEST(frames_of_arm64_have_their_return_address_at_sp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
