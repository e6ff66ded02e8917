/* What of a stack is of the sampled moment, and what was read later and is not believed. */
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

static void the_chain_is_of_the_moment(void **state)
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

/* What was copied of the goroutine when the sample was taken; by now all has changed. */
static void go_on_after_a_copy(struct made_sample *f)
{
	static struct goroutine_moment moment;
	static uint8_t copy[sizeof(f->goroutine.words)];

	moment = (struct goroutine_moment){G, f->place, copy, G_HI - f->goroutine.sp};
	memcpy(copy, stack_at(&f->goroutine, f->goroutine.sp), moment.size);
	memset(f->goroutine.words, 0, sizeof(f->goroutine.words));
	f->place.sp = 0;
	f->sample.moment = &moment;
}

static void what_was_copied_at_the_moment_needs_no_memory(void **state)
{
	struct made_sample *f = *state;

	make_morestack(f);
	go_on_after_a_copy(f);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(MIDDLE), made_pc(MORESTACK, false), f->sample.moment->place.pc,
		   made_pc(MIDDLE, false), made_pc(ROOT, false), END);
	assert_int_equal(f->result.g, G);
	assert_false(f->result.used_memory || f->result.truncated);
}

static void what_was_copied_tells_who_called_systemstack(void **state)
{
	struct made_sample *f = *state;

	make_systemstack(f, OLD_SYSTEMSTACK);
	go_on_after_a_copy(f);
	unwind_sample(f);
	ASSERT_PCS(f, EXACTLY(LEAF), made_pc(OLD_SYSTEMSTACK, false), made_pc(MIDDLE, false),
		   made_pc(ROOT, false), END);
	assert_false(f->result.used_memory || f->result.truncated);
}

static void what_was_copied_of_another_goroutine_is_not_used(void **state)
{
	struct made_sample *f = *state;
	struct goroutine_moment other;

	make_systemstack(f, OLD_SYSTEMSTACK);
	go_on_after_a_copy(f);
	other = *f->sample.moment;
	other.g = G + 512;
	other.place.sp += 0x100000;
	f->sample.moment = &other;
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

#define RUNNING_TEST(f) \
	cmocka_unit_test_setup_teardown(f, made_sample_set_up, made_sample_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUNNING_TEST(a_goroutine_that_went_on_gives_no_callers),
		RUNNING_TEST(the_chain_is_of_the_moment),
		RUNNING_TEST(memory_that_the_chain_contradicts_is_not_believed),
		RUNNING_TEST(a_deep_stack_goes_on_in_memory),
		RUNNING_TEST(a_deep_stack_that_changed_is_cut),
		RUNNING_TEST(what_was_copied_at_the_moment_needs_no_memory),
		RUNNING_TEST(what_was_copied_tells_who_called_systemstack),
		RUNNING_TEST(what_was_copied_of_another_goroutine_is_not_used),
		RUNNING_TEST(another_call_of_systemstack_is_not_taken_for_it),
		RUNNING_TEST(a_record_below_sp_shifts_the_chain_by_one),
		RUNNING_TEST(memory_has_to_agree_with_a_chain_without_place),
		RUNNING_TEST(memory_that_has_not_all_of_the_chain_is_not_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
