/* Goroutines that have called systemstack(). */
#include <unistd.h>

#include "base/unit_test.h"
#include "inject/on_systemstack.h"
#include "inject/tests/made_m.h"

static struct made_m ms[3];
static struct made_g g;
static uint64_t stack[] = {1, MADE_CALLER, 2};

/* Three M's; g is the second's. Needs on_systemstack_release(). */
static void read_on_systemstack(struct on_systemstack *s)
{
	struct target *t;

	ms[0] = (struct made_m){0, (uint64_t)&ms[1]};
	ms[1] = (struct made_m){(uint64_t)&g, (uint64_t)&ms[2]};
	ms[2] = (struct made_m){0x10, 0}; /* where nothing is */
	made_allm = (uint64_t)&ms[0];
	assert_null(target_open_process(getpid(), &t));
	assert_null(on_systemstack_prepare(t, &made_words, &made_switch, s));
	assert_null(on_systemstack_read(t, &made_words, NULL, s));
	target_close(t);
	assert_int_equal(s->count, 3);
}

static uint64_t caller(uint64_t pc, const uint64_t *sp, const uint64_t *bp)
{
	struct on_systemstack s = {0};
	uint64_t ret;

	g = (struct made_g){0x1000, 0x2000, (uint64_t)sp, pc, (uint64_t)bp};
	read_on_systemstack(&s);
	assert_int_equal(s.items[0].caller, 0);
	assert_int_equal(s.items[2].caller, 0);
	ret = s.items[1].caller;
	on_systemstack_release(&s);
	return ret;
}

static void systemstack_caller_is_found_with_and_without_a_frame(void **state)
{
	assert_int_equal(caller(MADE_SWITCH + 8, &stack[2], &stack[0]),
			 MADE_CALLER); /* from Go 1.21 on */
	assert_int_equal(caller(MADE_SWITCH, &stack[1], &stack[2]), MADE_CALLER);
}

static void goroutine_that_returned_is_no_systemstack_caller(void **state)
{
	assert_int_equal(caller(MADE_SWITCH + 8, NULL, &stack[0]), 0);
	assert_int_equal(caller(MADE_SWITCH, NULL, &stack[0]), 0);
	assert_int_equal(caller(MADE_SWITCH - 1, &stack[1], &stack[0]), 0);
	assert_int_equal(caller(MADE_SWITCH + MADE_SWITCH_BYTES, &stack[1], &stack[0]), 0);
	assert_int_equal(caller(MADE_SWITCH, (uint64_t *)0x10, &stack[0]), 0);
}

static void thread_on_the_goroutine_stack_has_returned(void **state)
{
	struct on_systemstack s = {0};

	g = (struct made_g){0x1000, 0x2000, (uint64_t)&stack[2], MADE_SWITCH + 8, (uint64_t)stack};
	read_on_systemstack(&s);
	on_systemstack_returned(&made_words, &s, 0xfff);
	on_systemstack_returned(&made_words, &s, 0x2000);
	assert_int_equal(s.items[1].caller, MADE_CALLER);
	on_systemstack_returned(&made_words, &s, 0x1000);
	assert_int_equal(s.items[1].caller, 0);
	on_systemstack_release(&s);
}

static void a_list_that_is_a_circle_ends(void **state)
{
	struct on_systemstack s = {0};
	struct target *t;

	ms[0] = (struct made_m){0, (uint64_t)&ms[1]};
	ms[1] = (struct made_m){0, (uint64_t)&ms[2]};
	made_allm = (uint64_t)&ms[0];
	assert_null(target_open_process(getpid(), &t));
	for (size_t to = 0; to < 3; to++) {
		ms[2] = (struct made_m){0, (uint64_t)&ms[to]};
		assert_null(on_systemstack_prepare(t, &made_words, &made_switch, &s));
		assert_in_range(s.count, 3, 8);
		assert_null(on_systemstack_read(t, &made_words, NULL, &s));
	}
	target_close(t);
	on_systemstack_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(systemstack_caller_is_found_with_and_without_a_frame),
		cmocka_unit_test(goroutine_that_returned_is_no_systemstack_caller),
		cmocka_unit_test(thread_on_the_goroutine_stack_has_returned),
		cmocka_unit_test(a_list_that_is_a_circle_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
