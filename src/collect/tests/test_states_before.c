/* States of goroutines that existed when tracing began. */
#include <stdlib.h>
#include <unistd.h>

#include "base/unit_test.h"
#include "collect/states_at_start.h"
#include "gotrace/step.h"

enum { THREAD = 100, OTHER = 101, GOID = 7, P = 3 };

static struct trace_events states_of(struct snapshot_goroutine *items, size_t count,
				     struct trace_event *first, size_t first_count)
{
	struct snapshot s = {.items = items, .count = count};
	struct trace_events events = {first, first_count, first_count}, ret = {0};

	assert_null(snapshot_events(&s, &events, &ret));
	return ret;
}

static void running_goroutine_has_a_p(void **state)
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

static void running_goroutine_without_a_p_is_at_a_system_call(void **state)
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

static void event_overrides_the_state_read_from_memory(void **state)
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

static void goroutine_created_later_has_no_state(void **state)
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

/* A goroutine, its M and its P, in our own memory. */
struct made {
	uint64_t goid, status, syscallsp, m, labels, startpc;
};

static struct made made_g;
static uint64_t made_p[2] = {P, 0};
static uint64_t made_m[3] = {THREAD, (uint64_t)&made_g, (uint64_t)made_p};
static struct made *made_gs[1] = {&made_g};
static struct made **made_allgptr = made_gs;
static uint64_t made_allglen = 1;

static struct golayout made_layout(int minor)
{
	return (struct golayout){
		.minor = minor,
		.n = {.g_goid = offsetof(struct made, goid),
		      .g_status = offsetof(struct made, status),
		      .g_syscallsp = offsetof(struct made, syscallsp),
		      .g_m = offsetof(struct made, m),
		      .g_labels = offsetof(struct made, labels),
		      .g_startpc = offsetof(struct made, startpc),
		      .m_procid = 0,
		      .m_curg = 8,
		      .m_p = 16,
		      .p_id = 0},
		.v = {.allglen = (uint64_t)&made_allglen, .allgptr = (uint64_t)&made_allgptr},
	};
}

static struct snapshot_goroutine read_made(int minor, uint64_t status, uint64_t syscallsp)
{
	struct golayout lay = made_layout(minor);
	struct snapshot_goroutine ret;
	struct snapshot s;
	struct target *t;

	made_g = (struct made){GOID, status, syscallsp, (uint64_t)made_m, 0, 0};
	assert_null(target_open_process(getpid(), &t));
	assert_null(snapshot_read(t, &lay, UINT64_MAX, &s));
	target_close(t);
	assert_int_equal(s.count, 1);
	ret = s.items[0];
	snapshot_release(&s);
	return ret;
}

static void running_goroutine_is_still_in_its_system_call(void **state)
{
	enum { RUNNING = 2, SYSCALL = 3 };
	struct snapshot_goroutine g = read_made(26, RUNNING, 0x1000);

	assert_int_equal(g.status, TRACE_IN_SYSCALL);
	assert_int_equal(g.goid, GOID);
	assert_int_equal(g.m, THREAD);
	assert_int_equal(g.p, P);
	assert_int_equal(read_made(26, SYSCALL, 0x1000).status, TRACE_IN_SYSCALL);
	assert_int_equal(read_made(26, RUNNING, 0).status, TRACE_RUNNING);
	/* The hook is before the change. */
	assert_int_equal(read_made(25, RUNNING, 0x1000).status, TRACE_RUNNING);
}

/* What has an event since may have waited elsewhere when its stack was read. */
static void stack_counts_if_it_was_read_before_the_first_event(void **state)
{
	enum { READ = 1000000, STACK = 5, REASON = 6, WAITED = 7 };
	struct snapshot_goroutine g = {.goid = GOID,
				       .m = TRACE_NO_M,
				       .p = TRACE_NO_P,
				       .status = TRACE_WAITING,
				       .stack = STACK,
				       .reason = REASON,
				       .waited_ns = WAITED,
				       .stood_ns = READ};
	struct trace_event wake = {.ns = READ - 1, .m = THREAD, .g = GOID, .kind = TRACE_UNBLOCK};

	for (size_t events = 0; events < 3; events++) {
		bool known = events != 1;
		struct trace_events e;

		wake.ns = events == 1 ? READ - 1 : 2 * READ;
		e = states_of(&g, 1, &wake, events > 0);
		assert_int_equal(e.count, 1 + known);
		assert_int_equal(e.items[0].kind, TRACE_G_STATUS);
		assert_int_equal(e.items[0].arg, TRACE_WAITING);
		assert_int_equal(e.items[0].stack, known ? STACK : 0);
		if (known) {
			assert_int_equal(e.items[1].kind, TRACE_PARKED);
			assert_int_equal(e.items[1].text, REASON);
			assert_int_equal(e.items[1].arg, WAITED);
		}
		free(e.items);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(running_goroutine_has_a_p),
		cmocka_unit_test(running_goroutine_without_a_p_is_at_a_system_call),
		cmocka_unit_test(running_goroutine_is_still_in_its_system_call),
		cmocka_unit_test(event_overrides_the_state_read_from_memory),
		cmocka_unit_test(goroutine_created_later_has_no_state),
		cmocka_unit_test(stack_counts_if_it_was_read_before_the_first_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
