/* Stacks by frame pointers: of parked and of running goroutines. */
#include <string.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "tests/made_functions.h"
#include "unwind/frames.h"
#include "unwind/running_thread.h"

enum { LEAF, MIDDLE, ROOT, GOEXIT, FUNCTIONS };

static const struct made_function functions[FUNCTIONS] = {
	[LEAF] = {"main.leaf", NULL, 0, 0, 0},
	[MIDDLE] = {"main.middle", NULL, 24, 0, 0},
	[ROOT] = {"main.root", NULL, 8, 0, 0},
	[GOEXIT] = {"runtime.goexit", NULL, 0, FUNC_TOPFRAME, 0},
};

#define SP 0xc000010000u
#define START (MADE_TEXT + ROOT * MADE_SIZE)
#define END (MADE_TEXT + GOEXIT * MADE_SIZE + 4)
#define G 0xc000001000u

struct fixture {
	struct made_functions made;
	struct stacks *stacks;
	uint64_t words[8];
	struct stack_memory memory;
};

static const struct unwinding by_fp = {.method = UNWIND_FP};

/* middle, called by root, is parked: its record is above two words of its own. */
static int set_up(void **state)
{
	static struct fixture f;
	const uint64_t words[8] = {0x1111, 0x1111, SP + 32, made_pc(ROOT, false), 0, END};

	made_functions_init(&f.made, PCLNTAB_GO120, functions, FUNCTIONS);
	f.stacks = stacks_create(&f.made.tab, MACHINE_AMD64);
	memcpy(f.words, words, sizeof(words));
	f.memory = (struct stack_memory){
		.pc = made_pc(MIDDLE, false),
		.sp = SP,
		.fp = SP + 16,
		.start_pc = START,
		.bytes = (const uint8_t *)f.words,
		.size = 48,
		.whole = true,
	};
	*state = &f;
	if (!f.stacks)
		return -1;
	stacks_unwind_by(f.stacks, &by_fp);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	stacks_destroy(f->stacks);
	made_functions_release(&f->made);
	return 0;
}

static void assert_stack(const struct stacks *stacks, uint32_t id, const uint64_t *pcs,
			 size_t count)
{
	struct stack s = stacks_get(stacks, id);

	assert_int_equal(s.count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(s.pcs[i], pcs[i]);
}

#define ASSERT_STACK(stacks, id, ...)                             \
	do {                                                      \
		const uint64_t pcs_[] = {__VA_ARGS__};            \
		assert_stack(stacks, id, pcs_, ARRAY_SIZE(pcs_)); \
	} while (0)

static uint32_t unwind(struct fixture *f)
{
	uint32_t id;

	assert_null(stacks_unwind(f->stacks, &f->memory, &id));
	return id;
}

static void records_lead_to_the_end(void **state)
{
	struct fixture *f = *state;

	ASSERT_STACK(f->stacks, unwind(f), made_pc(MIDDLE, false), made_pc(ROOT, false), END);
}

static void frame_pointers_lose_the_caller_of_a_frameless_leaf(void **state)
{
	struct fixture *f = *state;

	/* A leaf called by middle: the register is still middle's. */
	f->memory.pc = made_pc(LEAF, false);
	ASSERT_STACK(f->stacks, unwind(f), made_pc(LEAF, false), made_pc(ROOT, false), END);
}

static void the_same_addresses_on_another_way_are_another_stack(void **state)
{
	struct fixture *f = *state;
	uint32_t whole = unwind(f);

	f->memory.fp = SP + 32;
	ASSERT_STACK(f->stacks, unwind(f), made_pc(MIDDLE, false), END);
	f->memory.fp = SP + 16;
	assert_int_equal(unwind(f), whole);
}

static void missing_frame_pointer_leaves_both_ends(void **state)
{
	struct fixture *f = *state;

	f->memory.fp = 0;
	ASSERT_STACK(f->stacks, unwind(f), made_pc(MIDDLE, false), STACK_PC_TRUNCATED,
		     START | STACK_PC_EXACT);
	f->memory.pc = made_pc(ROOT, false); /* nothing is missing but goexit */
	ASSERT_STACK(f->stacks, unwind(f), made_pc(ROOT, false));
}

static void frame_pointers_that_lead_astray_are_not_followed(void **state)
{
	struct fixture *f = *state;
	const uint64_t wrong[] = {SP - 8,  SP + 17, SP + 40,    SP + 48,
				  SP + 16, 8,       UINT64_MAX, UINT64_MAX - 7};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		f->words[2] = wrong[i];
		ASSERT_STACK(f->stacks, unwind(f), made_pc(MIDDLE, false), made_pc(ROOT, false),
			     STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
	}
	f->words[3] = 0xdead; /* no code */
	ASSERT_STACK(f->stacks, unwind(f), made_pc(MIDDLE, false), STACK_PC_TRUNCATED,
		     START | STACK_PC_EXACT);
}

static void frames_reach_from_record_to_record(void **state)
{
	struct fixture *f = *state;
	_cleanup_frames_ struct frames frames = {0};

	f->memory.pc = made_pc(LEAF, false);
	assert_null(frames_unwind_by(&by_fp, &f->made.tab, MACHINE_AMD64, &f->memory, &frames));
	assert_int_equal(frames.end, FRAMES_WHOLE);
	assert_int_equal(frames.count, 3);
	assert_int_equal(frames.items[0].return_at, SP + 24);
	assert_int_equal(frames.items[0].cfa, SP + 32);
	assert_int_equal(frames.items[1].sp, SP + 32);
}

/* There a function's record lies right below its SP. */
static void arm64_begins_below_sp(void **state)
{
	struct fixture *f = *state;
	uint64_t words[] = {SP + 24, made_pc(ROOT, false), 0x1111, 0x1111, 0, END};
	struct stack_memory m = {
		.pc = made_pc(MIDDLE, false),
		.sp = SP,
		.fp = SP - 8,
		.start_pc = START,
		.bytes = (const uint8_t *)&words[1],
		.size = sizeof(words) - 8,
		.below = 8,
		.whole = true,
	};
	_cleanup_frames_ struct frames frames = {0};

	assert_null(frames_unwind_by(&by_fp, &f->made.tab, MACHINE_ARM64, &m, &frames));
	assert_int_equal(frames.end, FRAMES_WHOLE);
	assert_int_equal(frames.count, 3);
	assert_int_equal(frames.items[0].return_at, SP);
	assert_int_equal(frames.items[0].cfa, SP + 32);
	assert_int_equal(frames.items[1].word, made_pc(ROOT, false));
	assert_int_equal(frames.items[1].return_at, SP + 32);
	frames_release(&frames);
	m.below = 0;
	assert_null(frames_unwind_by(&by_fp, &f->made.tab, MACHINE_ARM64, &m, &frames));
	assert_int_equal(frames.end, FRAMES_CUT);
	assert_int_equal(frames.count, 1);
}

static bool no_memory(void *arg, uint64_t address, void *buffer, size_t size)
{
	return false;
}

static bool find_goroutine(void *arg, uint64_t g, struct goroutine_place *ret)
{
	*ret = (struct goroutine_place){.stack_lo = SP - 4096,
					.stack_hi = SP + 48,
					.start_pc = START};
	return g == G;
}

static bool no_thread_sp(void *arg, uint64_t *ret)
{
	return false;
}

/* A leaf that runs, called by middle: its return address, then middle's stack. */
static struct running_stack unwind_running(struct fixture *f, const uint64_t *chain, size_t count)
{
	struct running_unwinder *u =
		running_unwinder_create(f->stacks, &f->made.tab, MACHINE_AMD64, NULL);
	const struct running_source source = {no_memory, find_goroutine, no_thread_sp, f};
	const uint64_t words[] = {made_pc(MIDDLE, false), 0x1111, 0x1111, SP + 32,
				  made_pc(ROOT, false),   0,      END};
	struct running_sample in = {
		.bytes = (const uint8_t *)words,
		.size = sizeof(words),
		.chain = chain,
		.chain_count = count,
		.g = G,
		.g_is_certain = true,
	};
	struct running_stack ret;

	registers_set(&in.regs, AMD64_PC, made_pc(LEAF, false));
	registers_set(&in.regs, AMD64_RSP, SP - 8);
	registers_set(&in.regs, AMD64_RBP, SP + 16);
	assert_non_null(u);
	assert_null(running_unwind(u, &in, &source, &ret));
	running_unwinder_destroy(u);
	return ret;
}

static void running_goroutine_uses_the_kernels_chain(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(ROOT, false), END};
	struct running_stack got = unwind_running(f, chain, ARRAY_SIZE(chain));

	ASSERT_STACK(f->stacks, got.stack, made_pc(LEAF, false) | STACK_PC_EXACT,
		     made_pc(ROOT, false), END);
	ASSERT_STACK(f->stacks, got.exact, made_pc(LEAF, false) | STACK_PC_EXACT,
		     made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_int_equal(got.g, G);
	assert_int_equal(got.start_pc, START);
	assert_false(got.truncated);
}

static void a_chain_that_ends_early_is_cut(void **state)
{
	struct fixture *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(MIDDLE, false), 0xdead, END};
	struct running_stack got = unwind_running(f, chain, ARRAY_SIZE(chain));

	ASSERT_STACK(f->stacks, got.stack, made_pc(LEAF, false) | STACK_PC_EXACT,
		     made_pc(MIDDLE, false), STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
	assert_true(got.truncated);
	got = unwind_running(f, chain, 0);
	ASSERT_STACK(f->stacks, got.stack, made_pc(LEAF, false) | STACK_PC_EXACT,
		     STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
}

static void new_goroutine_has_a_whole_stack(void **state)
{
	struct fixture *f = *state;
	const uint64_t recursion[] = {made_pc(LEAF, false), made_pc(ROOT, false)};
	const uint64_t words[] = {END};
	struct running_stack got = unwind_running(f, recursion, ARRAY_SIZE(recursion));

	ASSERT_STACK(f->stacks, got.stack, made_pc(LEAF, false) | STACK_PC_EXACT,
		     made_pc(ROOT, false), STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
	f->memory.fp = 0;
	f->memory.pc = START;
	f->memory.bytes = (const uint8_t *)words;
	f->memory.size = sizeof(words);
	ASSERT_STACK(f->stacks, unwind(f), START | STACK_PC_EXACT);
}

static void methods_have_names(void **state)
{
	enum unwind_method method;

	for (int i = UNWIND_PCSP; i <= UNWIND_DWARF; i++) {
		assert_true(unwind_method_named(unwind_method_name(i), &method));
		assert_int_equal(method, i);
	}
	assert_false(unwind_method_named("", &method));
	assert_false(unwind_method_named("FP", &method));
}

#define METHOD_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		METHOD_TEST(records_lead_to_the_end),
		METHOD_TEST(frame_pointers_lose_the_caller_of_a_frameless_leaf),
		METHOD_TEST(the_same_addresses_on_another_way_are_another_stack),
		METHOD_TEST(missing_frame_pointer_leaves_both_ends),
		METHOD_TEST(frame_pointers_that_lead_astray_are_not_followed),
		METHOD_TEST(frames_reach_from_record_to_record),
		METHOD_TEST(arm64_begins_below_sp),
		METHOD_TEST(running_goroutine_uses_the_kernels_chain),
		METHOD_TEST(a_chain_that_ends_early_is_cut),
		METHOD_TEST(new_goroutine_has_a_whole_stack),
		cmocka_unit_test(methods_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
