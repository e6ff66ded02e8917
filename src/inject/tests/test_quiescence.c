/* Whether a stopped thread is in a forbidden function: for a child process that waits where the
 * test sends it. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/unit_test.h"
#include "inject/quiescence.h"
#include "inject/tests/made_m.h"
#include "target/target.h"

/* calls_leaf() calls a function without a frame; calls_two() calls one that calls another, both
 * with frames, and calls_other() does so on another stack. */
__asm__(".text\n"
	"calls_leaf: push %rbp; mov %rsp, %rbp; call leaf; pop %rbp; ret\n"
	"calls_leaf_end:\n"
	"leaf: pause; jmp leaf\n"
	"calls_two: push %rbp; mov %rsp, %rbp; call middle; pop %rbp; ret\n"
	"calls_two_end:\n"
	"calls_three: push %rbp; mov %rsp, %rbp; call calls_two; pop %rbp; ret\n"
	"calls_three_end:\n"
	"calls_other: push %rbp; mov %rsp, %rbp; call switches; pop %rbp; ret\n"
	"calls_other_end:\n"
	"switches: push %rbp; mov %rsp, %rbp; lea other_stack + 8000(%rip), %rsp\n"
	"call inner; mov %rbp, %rsp; pop %rbp; ret\n"
	"middle: push %rbp; mov %rsp, %rbp; call inner; pop %rbp; ret\n"
	"middle_end:\n"
	"inner: push %rbp; mov %rsp, %rbp\n"
	"1: pause; jmp 1b\n"
	"inner_end:\n");
void calls_leaf(void);
void calls_two(void);
void calls_three(void);
void calls_other(void);
char other_stack[8192] __attribute__((aligned(16), visibility("hidden")));
extern const char calls_other_end[], calls_leaf_end[], leaf[], calls_two_end[], calls_three_end[],
	middle[], middle_end[], inner[], inner_end[];

static pid_t start(void (*function)(void))
{
	struct timespec used = {0};
	pid_t pid = fork();
	clockid_t clock;

	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		function();
		_exit(1);
	}
	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	while (!used.tv_sec && used.tv_nsec < 10000000) { /* until it is there */
		usleep(1000);
		assert_int_equal(clock_gettime(clock, &used), 0);
	}
	return pid;
}

/* The child's: one M, or none, and its goroutine, which has called systemstack(). */
static uint64_t frame[] = {0, MADE_CALLER};
static struct made_g g = {0x1000, 0x2000, 0x1ff0, MADE_SWITCH + 8, (uint64_t)frame};
static struct made_m m = {(uint64_t)&g, 0};

struct look {
	struct threads threads;
	struct target *t;
	struct code_head head;
	struct quiescence quiescence;
	bool inside;
};

static struct error *stop_and_look(void *arg)
{
	struct look *l = arg;
	uint64_t since;
	struct error *err = threads_stop_all(&l->threads, &since);

	if (err)
		return err;
	err = quiescence_check(l->t, &l->head, &made_words, &l->threads, &l->quiescence,
			       &l->inside);
	threads_resume(&l->threads);
	return err;
}

/* Examines a child in `function`: one of these, the first so many of which change states. */
static struct error *look(void (*function)(void), struct look *l)
{
	struct error *err;
	int status;

	l->threads = (struct threads){.pid = start(function)};
	assert_null(target_open_process(l->threads.pid, &l->t));
	l->quiescence.functions.systemstack_switch = made_switch;
	assert_null(quiescence_prepare(l->t, &made_words, &l->quiescence));
	/* It got no CPU for some tries. */
	while ((err = run_on_tracer_thread(stop_and_look, l)) == &error_fault)
		threads_let_run(&l->threads, 0);
	target_close(l->t);
	kill(l->threads.pid, SIGKILL);
	assert_int_equal(waitpid(l->threads.pid, &status, 0), l->threads.pid);
	threads_release(&l->threads);
	quiescence_release(&l->quiescence);
	return err;
}

static bool is_inside(void (*function)(void), const void *from, const void *to, size_t changing)
{
	struct look l = {0};

	l.quiescence.functions =
		(struct quiescence_functions){{{(uint64_t)from,
						(const char *)to - (const char *)from}},
					      1,
					      changing};
	assert_null(look(function, &l));
	return l.inside;
}

static void thread_inside_the_function_is_found(void **state)
{
	assert_true(is_inside(calls_leaf, leaf, (const char *)calls_two, 1));
	assert_true(is_inside(calls_two, inner, inner_end, 0));
	assert_false(is_inside(calls_two, calls_leaf, leaf, 1));
}

static void callee_of_the_function_is_found_at_any_depth(void **state)
{
	assert_true(is_inside(calls_leaf, calls_leaf, calls_leaf_end, 1));
	assert_true(is_inside(calls_leaf, calls_leaf, calls_leaf_end, 0));
	assert_true(is_inside(calls_two, middle, middle_end, 0));
	assert_true(is_inside(calls_two, calls_two, calls_two_end, 1));
	assert_true(is_inside(calls_three, calls_three, calls_three_end, 1));
	assert_true(is_inside(calls_other, calls_other, calls_other_end, 1));
	assert_false(is_inside(calls_other, calls_other, calls_other_end, 0));
}

static bool on_systemstack_is_inside(uint64_t function, size_t changing)
{
	return is_inside(calls_leaf, (const void *)function, (const char *)function + 0x20,
			 changing);
}

static void systemstack_caller_is_not_quiescent(void **state)
{
	struct made_g before = g;

	assert_false(on_systemstack_is_inside(MADE_CALLER - 0x10, 1));
	made_allm = (uint64_t)&m;
	assert_true(on_systemstack_is_inside(MADE_CALLER - 0x10, 1));
	assert_false(on_systemstack_is_inside(MADE_CALLER - 0x10, 0));
	assert_false(on_systemstack_is_inside(MADE_CALLER + 1, 1));
	/* The thread is on the goroutine's own stack. */
	g.lo = 0;
	g.hi = UINT64_MAX;
	assert_false(on_systemstack_is_inside(MADE_CALLER - 0x10, 1));
	g = before;
	made_allm = 0;
}

static void the_scheduler_is_not_taken_for_who_parks(void **state)
{
	assert_false(is_inside(calls_two, calls_two, calls_two_end, 0));
}

static void nobody_may_be_in_the_midst_of_an_instruction_that_is_replaced(void **state)
{
	struct look l = {.head = {.site_count = 1}};
	struct error *err;

	l.head.sites[0] = (struct code_site){.address = (uint64_t)leaf - 1, .length = 7};
	err = look(calls_leaf, &l);
	assert_non_null(err);
	assert_int_equal(err->code, ERROR_FAILED);
	error_destroy(err);
	l.head.sites[0].address = (uint64_t)inner;
	assert_null(look(calls_leaf, &l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_inside_the_function_is_found),
		cmocka_unit_test(callee_of_the_function_is_found_at_any_depth),
		cmocka_unit_test(systemstack_caller_is_not_quiescent),
		cmocka_unit_test(the_scheduler_is_not_taken_for_who_parks),
		cmocka_unit_test(nobody_may_be_in_the_midst_of_an_instruction_that_is_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
