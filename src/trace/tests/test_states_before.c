/* What is said of goroutines that were there when tracing began. */
#include <stdlib.h>

#include "base/unit_test.h"
#include "trace/snapshot.h"
#include "trace/step.h"

enum { THREAD = 100, OTHER = 101, GOID = 7, P = 3 };

static struct trace_events states_of(struct snapshot_goroutine *items, size_t count,
				     struct trace_event *first, size_t first_count)
{
	struct snapshot s = {.items = items, .count = count};
	struct trace_events events = {first, first_count, first_count}, ret = {0};

	assert_null(snapshot_events(&s, &events, &ret));
	return ret;
}

static void who_runs_has_a_processor(void **state)
{
	struct snapshot_goroutine g = {.goid = GOID, .m = THREAD, .p = P, .status = TRACE_RUNNING};
	struct trace_events e = states_of(&g, 1, NULL, 0);

	assert_int_equal(e.count, 2);
	assert_int_equal(e.items[0].kind, TRACE_P_STATUS);
	assert_int_equal(e.items[0].arg, PROC_RUNNING);
	assert_int_equal(e.items[1].kind, TRACE_G_STATUS);
	assert_int_equal(e.items[1].arg, TRACE_RUNNING);
	free(e.items);
}

static void who_runs_without_one_is_at_the_edge_of_a_system_call(void **state)
{
	struct snapshot_goroutine g = {.goid = GOID,
				       .m = THREAD,
				       .p = TRACE_NO_P,
				       .status = TRACE_RUNNING};
	struct trace_event call = {.ns = 9,
				   .m = THREAD,
				   .g = GOID,
				   .p = TRACE_NO_P,
				   .kind = TRACE_SYSCALL};

	for (size_t told = 0; told < 2; told++) {
		struct trace_events e = states_of(&g, 1 - told, &call, told);

		assert_int_equal(e.count, 1);
		assert_int_equal(e.items[0].kind, TRACE_G_STATUS);
		assert_int_equal(e.items[0].arg, TRACE_IN_SYSCALL);
		assert_int_equal(e.items[0].m, THREAD);
		free(e.items);
	}
}

static void what_an_event_tells_goes_before_what_was_read(void **state)
{
	struct snapshot_goroutine items[] =
		{{.goid = GOID, .m = THREAD, .p = P, .status = TRACE_RUNNING},
		 {.goid = GOID + 1, .m = TRACE_NO_M, .p = TRACE_NO_P, .status = TRACE_WAITING}};
	struct trace_event start = {.ns = 9, .m = OTHER, .g = GOID, .p = P, .kind = TRACE_START};
	struct trace_events e = states_of(items, 2, &start, 1);

	assert_int_equal(e.count, 2);
	assert_int_equal(e.items[0].g, GOID);
	assert_int_equal(e.items[0].arg, TRACE_RUNNABLE);
	assert_int_equal(e.items[1].g, GOID + 1);
	assert_int_equal(e.items[1].arg, TRACE_WAITING);
	free(e.items);
}

static void who_was_made_since_has_no_state(void **state)
{
	struct snapshot_goroutine g = {.goid = GOID,
				       .m = TRACE_NO_M,
				       .p = TRACE_NO_P,
				       .status = TRACE_RUNNABLE};
	struct trace_event create = {.ns = 9, .m = THREAD, .g = GOID, .p = P, .kind = TRACE_CREATE};
	struct trace_events e = states_of(&g, 1, &create, 1);

	assert_int_equal(e.count, 0);
	free(e.items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_runs_has_a_processor),
		cmocka_unit_test(who_runs_without_one_is_at_the_edge_of_a_system_call),
		cmocka_unit_test(what_an_event_tells_goes_before_what_was_read),
		cmocka_unit_test(who_was_made_since_has_no_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
