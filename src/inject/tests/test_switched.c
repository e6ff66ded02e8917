/* Who has called the system stack: in the memory of a child of ours, where M's and goroutines lie
 * as we put them. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unit_test.h"
#include "inject/switched.h"

#define SWITCH 0x401000
#define CALLER 0x402010

struct goroutine {
	uint64_t lo, hi, sp, pc, bp;
};

struct m {
	uint64_t curg, next;
};

static uint64_t allm;
static struct m ms[3];
static struct goroutine g;
static uint64_t stack[] = {1, CALLER, 2};

static const struct golayout lay = {
	.n = {.m_curg = offsetof(struct m, curg),
	      .m_alllink = offsetof(struct m, next),
	      .g_stack_lo = offsetof(struct goroutine, lo),
	      .g_stack_hi = offsetof(struct goroutine, hi),
	      .g_sched_sp = offsetof(struct goroutine, sp),
	      .g_sched_pc = offsetof(struct goroutine, pc),
	      .g_sched_bp = offsetof(struct goroutine, bp)},
	.v = {.allm = (uint64_t)&allm},
};
static const struct agent_range systemstack_switch = {SWITCH, 32};

/* Three M's; g is the second's. Needs switched_release(). */
static void read_switched(struct switched *s)
{
	struct target *t;
	int status;
	pid_t pid;

	ms[0] = (struct m){0, (uint64_t)&ms[1]};
	ms[1] = (struct m){(uint64_t)&g, (uint64_t)&ms[2]};
	ms[2] = (struct m){0x10, 0}; /* where nothing is */
	allm = (uint64_t)&ms[0];
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_null(target_open_process(pid, &t));
	assert_null(switched_prepare(t, &lay, &systemstack_switch, s));
	assert_null(switched_read(t, &lay, s));
	target_close(t);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(s->count, 3);
}

static uint64_t caller(uint64_t pc, const uint64_t *sp, const uint64_t *bp)
{
	struct switched s = {0};
	uint64_t ret;

	g = (struct goroutine){0x1000, 0x2000, (uint64_t)sp, pc, (uint64_t)bp};
	read_switched(&s);
	assert_int_equal(s.items[0].caller, 0);
	assert_int_equal(s.items[2].caller, 0);
	ret = s.items[1].caller;
	switched_release(&s);
	return ret;
}

static void who_called_is_found_with_a_frame_and_without(void **state)
{
	assert_int_equal(caller(SWITCH + 8, &stack[2], &stack[0]), CALLER); /* from Go 1.21 on */
	assert_int_equal(caller(SWITCH, &stack[1], &stack[2]), CALLER);
}

static void who_is_back_or_has_left_otherwise_has_not_called(void **state)
{
	assert_int_equal(caller(SWITCH + 8, NULL, &stack[0]), 0);
	assert_int_equal(caller(SWITCH, NULL, &stack[0]), 0);
	assert_int_equal(caller(SWITCH - 1, &stack[1], &stack[0]), 0);
	assert_int_equal(caller(SWITCH + 32, &stack[1], &stack[0]), 0);
	assert_int_equal(caller(SWITCH, (uint64_t *)0x10, &stack[0]), 0);
}

static void who_is_on_the_goroutines_stack_is_back(void **state)
{
	struct switched s = {0};

	g = (struct goroutine){0x1000, 0x2000, (uint64_t)&stack[2], SWITCH + 8, (uint64_t)stack};
	read_switched(&s);
	switched_is_back(&lay, &s, 0xfff);
	switched_is_back(&lay, &s, 0x2000);
	assert_int_equal(s.items[1].caller, CALLER);
	switched_is_back(&lay, &s, 0x1000);
	assert_int_equal(s.items[1].caller, 0);
	switched_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_called_is_found_with_a_frame_and_without),
		cmocka_unit_test(who_is_back_or_has_left_otherwise_has_not_called),
		cmocka_unit_test(who_is_on_the_goroutines_stack_is_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
