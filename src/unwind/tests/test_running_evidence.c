/* Which parts of a stack belong to the sample, and which were read later and are rejected. */
#include <string.h>

#include "base/array.h"
#include "unwind/tests/made_sample.h"

static void a_goroutine_that_went_on_gives_no_callers(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	f->place.sp = 0;
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), STACK_PC_TRUNCATED,
		   START | STACK_PC_EXACT);
	assert_true(f->result.truncated);
	assert_int_equal(f->result.g, G);
}

/* The kernel went from leaf's record to systemstack's and on. */
static void make_chain(struct made_sample *f)
{
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(SYSTEMSTACK, false),
				  made_pc(MIDDLE, false), made_pc(ROOT, false), END};

	memcpy(f->chain, chain, sizeof(chain));
	f->sample.chain = f->chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
}

static void the_callchain_is_of_the_sample(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	make_chain(f);
	memset(&f->goroutine.words, 0, sizeof(f->goroutine.words)); /* since then */
	f->place.sp = 0;
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_true(f->result.used_chain);
	assert_false(f->result.truncated);
}

static void memory_that_the_chain_contradicts_is_not_believed(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	make_chain(f);
	f->sample.chain_count = 4; /* without its end, so that memory is asked */
	f->chain[3] = made_pc(LEAF, true);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(LEAF, true), STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
}

static void a_deep_stack_goes_on_in_memory(void **state)
{
	struct made_sample *f = *state;

	make_goroutine(f);
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, false));
	f->sample.g = G;
	f->sample.g_is_certain = true;
	take_sample(f, &f->goroutine, 40, LEAF);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_true(f->result.used_memory);
}

static void a_deep_stack_that_changed_is_cut(void **state)
{
	struct made_sample *f = *state;
	struct made_stack then;

	make_goroutine(f);
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, false));
	then = f->goroutine;
	f->sample.g = G;
	f->sample.g_is_certain = true;
	take_sample(f, &then, 40, LEAF);
	*stack_at(&f->goroutine, f->goroutine.sp + 24) = made_pc(ROOT, false);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MIDDLE, false), STACK_PC_TRUNCATED,
		   START | STACK_PC_EXACT);
}

/* The copy of the goroutine at the sample; all has changed since. */
static void go_on_after_a_copy(struct made_sample *f)
{
	static struct sampled_goroutine sample;
	static uint8_t copy[sizeof(f->goroutine.words)];

	sample = (struct sampled_goroutine){G, f->place, copy, G_HI - f->goroutine.sp, 0};
	memcpy(copy, stack_at(&f->goroutine, f->goroutine.sp), sample.size);
	memset(f->goroutine.words, 0, sizeof(f->goroutine.words));
	f->place.sp = 0;
	f->sample.sampled = &sample;
}

static void unwind_morestack_by_copy(struct made_sample *f)
{
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(MORESTACK, false), f->sample.sampled->place.pc,
		   made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

static void cpu_sample_needs_no_target_memory(void **state)
{
	struct made_sample *f = *state;

	make_morestack(f);
	go_on_after_a_copy(f);
	unwind_morestack_by_copy(f);
	assert_false(f->result.used_memory || f->result.truncated);
}

static void cpu_sample_identifies_the_systemstack_caller(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, OLD_SYSTEMSTACK);
	go_on_after_a_copy(f);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(OLD_SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_false(f->result.used_memory || f->result.truncated);
}

static void cpu_sample_of_another_goroutine_is_ignored(void **state)
{
	struct made_sample *f = *state;
	struct sampled_goroutine other;

	make_systemstack(f, OLD_SYSTEMSTACK);
	go_on_after_a_copy(f);
	other = *f->sample.sampled;
	other.g = G + 512;
	other.place.sp += 0x100000;
	f->sample.sampled = &other;
	unwind_sample(f);
	assert_true(f->result.truncated);
}

/* It has returned from systemstack, called leaf, and that has called systemstack anew. */
static void another_call_of_systemstack_is_not_taken_for_it(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, OLD_SYSTEMSTACK);
	f->goroutine.sp += 8;
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, true));
	push_word(&f->goroutine, made_pc(LEAF, true));
	f->place.sp = f->goroutine.sp;
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(OLD_SYSTEMSTACK, false), STACK_PC_TRUNCATED,
		   START | STACK_PC_EXACT);
}

/*
 * Around a call of duffzero BP leads to a record below SP. Its return address is the chain's second
 * word, so the frame's own record is the third.
 */
static void a_record_below_sp_shifts_the_chain_by_one(void **state)
{
	struct made_sample *f = *state;
	const uint64_t chain[] = {made_pc(MIDDLE, false), made_pc(MIDDLE, true),
				  made_pc(ROOT, false), END};

	make_goroutine(f);
	f->sample.g = G;
	f->sample.g_is_certain = true;
	take_sample(f, &f->goroutine, 48, MIDDLE);
	registers_set(&f->sample.regs, AMD64_RBP, f->goroutine.sp - 16);
	f->sample.chain = chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
	f->place.stack_hi = 0; /* memory is of no help */
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(ROOT, false), END);
	assert_true(f->result.used_chain);
	assert_false(f->result.used_memory);
}

/* A record below SP again, and the frame's own is not among the captured bytes: the chain's place
 * on the stack is not known. */
static void make_chain_without_place(struct made_sample *f, const uint64_t *chain, size_t count)
{
	make_goroutine(f);
	push_frame(&f->goroutine, 24, made_pc(MIDDLE, false));
	f->sample.g = G;
	f->sample.g_is_certain = true;
	take_sample(f, &f->goroutine, 16, LEAF);
	registers_set(&f->sample.regs, AMD64_RBP, f->goroutine.sp - 16);
	f->sample.chain = chain;
	f->sample.chain_count = count;
}

static void memory_has_to_agree_with_a_chain_without_place(void **state)
{
	struct made_sample *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(LEAF, true), made_pc(MIDDLE, false),
				  made_pc(ROOT, false), END};

	make_chain_without_place(f, chain, ARRAY_SIZE(chain));
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_true(f->result.used_memory);
}

static void memory_that_has_not_all_of_the_chain_is_not_believed(void **state)
{
	struct made_sample *f = *state;
	const uint64_t chain[] = {made_pc(LEAF, false), made_pc(LEAF, true), made_pc(MIDDLE, false),
				  made_pc(ROOT, true), END};

	make_chain_without_place(f, chain, ARRAY_SIZE(chain));
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
	assert_false(f->result.used_memory);
}

/* Where the goroutine's stack was until the collector moved it: nothing of it is the goroutine's.
 */
#define OLD_STACK 0xc000020000u

/* Leaf, called by the lender of the stack, called by systemstack; fp leads to `fp`. */
static void make_borrowed(struct made_sample *f, int systemstack, uint64_t fp)
{
	make_systemstack(f, systemstack);
	f->thread.sp = THREAD_STACK;
	f->thread.fp = fp;
	push_frame(&f->thread, 24, made_pc(systemstack, false));
	push_frame(&f->thread, 24, made_pc(ASSIST, false));
	take_sample(f, &f->thread, SIZE_MAX, LEAF);
}

/* Its chain: what another goroutine has where the stack was. */
static void make_stray_chain(struct made_sample *f, int systemstack)
{
	const uint64_t chain[] = {made_pc(LEAF, false),        made_pc(ASSIST, false),
				  made_pc(systemstack, false), made_pc(MIDDLE, false),
				  made_pc(CLOSURE, false),     END};

	memcpy(f->chain, chain, sizeof(chain));
	f->sample.chain = f->chain;
	f->sample.chain_count = ARRAY_SIZE(chain);
}

#define ASSERT_LENT(f, systemstack, ...)                                                  \
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(ASSIST, false), made_pc(systemstack, false), \
		   __VA_ARGS__)

static void a_stack_that_was_moved_is_found_by_the_snapshot(void **state)
{
	static const int systemstacks[] = {SYSTEMSTACK, OLD_SYSTEMSTACK};
	struct made_sample *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(systemstacks); i++) {
		f->goroutine.sp = G_HI;
		make_borrowed(f, systemstacks[i], OLD_STACK);
		make_stray_chain(f, systemstacks[i]);
		go_on_after_a_copy(f);
		unwind_sample(f);
		ASSERT_LENT(f, systemstacks[i], made_pc(MIDDLE, false), made_pc(ROOT, false), END);
		assert_int_equal(f->result.g, G);
		assert_false(f->result.truncated || f->result.used_chain);
	}
}

static void so_is_one_under_morestack(void **state)
{
	struct made_sample *f = *state;

	make_morestack(f);
	*stack_at(&f->thread, THREAD_STACK - 16) = OLD_STACK;
	go_on_after_a_copy(f);
	unwind_morestack_by_copy(f);
}

/* The frame pointer that leads there was not captured. */
static void a_chain_to_where_a_stack_was_is_left_at_systemstack(void **state)
{
	struct made_sample *f = *state;
	struct sampled_goroutine sample;

	make_borrowed(f, SYSTEMSTACK, OLD_STACK);
	make_stray_chain(f, SYSTEMSTACK);
	take_sample(f, &f->thread, 32, LEAF);
	go_on_after_a_copy(f);
	sample = *f->sample.sampled;
	f->sample.sampled = &sample;
	sample.left_fp = OLD_STACK;
	unwind_sample(f);
	ASSERT_LENT(f, SYSTEMSTACK, made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	assert_false(f->result.truncated || f->result.used_memory);
	/* It is the goroutine's: then the chain is right. */
	sample.left_fp = sample.place.sp;
	unwind_sample(f);
	ASSERT_LENT(f, SYSTEMSTACK, made_pc(MIDDLE, false), made_pc(CLOSURE, false), END);
}

static void chain_under_a_borrowed_stack_needs_a_snapshot(void **state)
{
	struct made_sample *f = *state;

	make_borrowed(f, SYSTEMSTACK, OLD_STACK);
	make_stray_chain(f, SYSTEMSTACK);
	running_unwinder_expect_moves(f->unwinder);
	unwind_sample(f);
	ASSERT_LENT(f, SYSTEMSTACK, STACK_PC_TRUNCATED);
	take_sample(f, &f->thread, 32, LEAF);
	unwind_sample(f);
	ASSERT_LENT(f, SYSTEMSTACK, STACK_PC_TRUNCATED);
}

static void chain_is_trusted_where_stacks_do_not_move(void **state)
{
	struct made_sample *f = *state;

	make_borrowed(f, SYSTEMSTACK, OLD_STACK);
	make_stray_chain(f, SYSTEMSTACK);
	unwind_sample(f);
	ASSERT_LENT(f, SYSTEMSTACK, made_pc(MIDDLE, false), made_pc(CLOSURE, false), END);
	/* It does not move without a lender. */
	running_unwinder_expect_moves(f->unwinder);
	make_systemstack(f, SYSTEMSTACK);
	make_chain(f);
	f->sample.g = 0;
	unwind_sample(f);
	assert_false(f->result.truncated);
}

/* The thread works for another goroutine by now, but the lender of its stack has its g in its
 * frame. */
static void the_lender_of_a_stack_that_was_not_moved_is_known(void **state)
{
	struct made_sample *f = *state;

	make_borrowed(f, SYSTEMSTACK, 0);
	*stack_at(&f->thread, THREAD_STACK - 16) = f->goroutine.fp;
	*stack_at(&f->thread, THREAD_STACK - 24) = G;
	make_stray_chain(f, SYSTEMSTACK);
	f->chain[4] = made_pc(ROOT, false);
	f->sample.g = 0;
	running_unwinder_expect_moves(f->unwinder);
	unwind_sample(f);
	ASSERT_LENT(f, SYSTEMSTACK, made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
}

/* Only systemstack's own frame of the goroutine's stack was copied; the rest is in memory. */
static void make_short_copy(struct made_sample *f, struct sampled_goroutine *sample,
			    uint64_t copy[2])
{
	make_systemstack(f, SYSTEMSTACK);
	memcpy(copy, stack_at(&f->goroutine, f->goroutine.sp), 16);
	*sample = (struct sampled_goroutine){G, f->place, (const uint8_t *)copy, 16, 0};
	f->sample.sampled = sample;
	unwind_sample(f);
	assert_false(f->result.truncated);
	assert_true(f->result.used_memory);
}

static void goroutine_that_ran_since_has_a_stale_stack(void **state)
{
	struct made_sample *f = *state;
	struct sampled_goroutine sample;
	uint64_t copy[2];

	make_short_copy(f, &sample, copy);
	f->place.ran++;
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
}

static void copied_stack_must_match_memory(void **state)
{
	struct made_sample *f = *state;
	struct sampled_goroutine sample;
	uint64_t copy[2];

	make_short_copy(f, &sample, copy);
	*stack_at(&f->goroutine, f->goroutine.sp + 8) = made_pc(MIDDLE, true);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   STACK_PC_TRUNCATED, START | STACK_PC_EXACT);
}

/* Memory is needed on the thread's stack already, and then of the goroutine's. */
static void each_of_two_stacks_has_to_be_as_it_was(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	f->thread.sp = THREAD_STACK;
	f->thread.fp = f->goroutine.fp;
	push_frame(&f->thread, 40, made_pc(SYSTEMSTACK, false));
	push_frame(&f->thread, 24, made_pc(MIDDLE, true));
	take_sample(f, &f->thread, 32, LEAF);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MIDDLE, true), made_pc(SYSTEMSTACK, false),
		   made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	f->place.sp += 8;
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(MIDDLE, true), STACK_PC_TRUNCATED,
		   START | STACK_PC_EXACT);
}

static void a_chain_that_leaves_the_code_proves_nothing(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, SYSTEMSTACK);
	make_chain(f);
	f->sample.g = 0; /* so that memory has no other guard */
	f->chain[3] = 0xc000123456;
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   STACK_PC_TRUNCATED);
}

#define RUNNING_TEST(f) \
	cmocka_unit_test_setup_teardown(f, made_sample_set_up, made_sample_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUNNING_TEST(a_goroutine_that_went_on_gives_no_callers),
		RUNNING_TEST(the_callchain_is_of_the_sample),
		RUNNING_TEST(memory_that_the_chain_contradicts_is_not_believed),
		RUNNING_TEST(a_deep_stack_goes_on_in_memory),
		RUNNING_TEST(a_deep_stack_that_changed_is_cut),
		RUNNING_TEST(cpu_sample_needs_no_target_memory),
		RUNNING_TEST(cpu_sample_identifies_the_systemstack_caller),
		RUNNING_TEST(cpu_sample_of_another_goroutine_is_ignored),
		RUNNING_TEST(another_call_of_systemstack_is_not_taken_for_it),
		RUNNING_TEST(a_record_below_sp_shifts_the_chain_by_one),
		RUNNING_TEST(memory_has_to_agree_with_a_chain_without_place),
		RUNNING_TEST(memory_that_has_not_all_of_the_chain_is_not_believed),
		RUNNING_TEST(a_stack_that_was_moved_is_found_by_the_snapshot),
		RUNNING_TEST(so_is_one_under_morestack),
		RUNNING_TEST(a_chain_to_where_a_stack_was_is_left_at_systemstack),
		RUNNING_TEST(chain_under_a_borrowed_stack_needs_a_snapshot),
		RUNNING_TEST(chain_is_trusted_where_stacks_do_not_move),
		RUNNING_TEST(the_lender_of_a_stack_that_was_not_moved_is_known),
		RUNNING_TEST(goroutine_that_ran_since_has_a_stale_stack),
		RUNNING_TEST(copied_stack_must_match_memory),
		RUNNING_TEST(each_of_two_stacks_has_to_be_as_it_was),
		RUNNING_TEST(a_chain_that_leaves_the_code_proves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
