/* A thread that goes before all others, for as long as it does little. */
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/permit.h"
#include "base/unit_test.h"
#include "collect/precedence.h"

#define LIMIT_NS 10000000000ull

static int policy(void)
{
	return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

static void collector_that_takes_a_cpu_loses_its_priority(void **state)
{
	uint64_t end = clock_now() + LIMIT_NS;
	struct precedence p;

	precedence_take(&p);
	if (!p.may)
		skip();
	assert_int_equal(policy(), SCHED_FIFO);
	while (p.has && clock_now() < end)
		precedence_check(&p);
	assert_false(p.has);
	assert_int_equal(policy(), SCHED_OTHER);
	while (!p.has && clock_now() < end) {
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
		precedence_check(&p);
	}
	assert_true(p.has);
	assert_int_equal(policy(), SCHED_FIFO);
	precedence_give_back(&p);
	assert_int_equal(policy(), SCHED_OTHER);
}

static void precedence_restores_the_scheduling_policy(void **state)
{
	int nice = getpriority(PRIO_PROCESS, 0);
	struct precedence p;

	precedence_take(&p);
	precedence_give_back(&p);
	assert_int_equal(policy(), SCHED_OTHER);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
}

static void another_policy_than_the_usual_one_is_kept(void **state)
{
	struct sched_param none = {0};
	struct precedence p;

	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &none), 0);
	precedence_take(&p);
	assert_false(p.may);
	assert_int_equal(policy(), SCHED_BATCH);
	precedence_give_back(&p);
	assert_int_equal(policy(), SCHED_BATCH);
	sched_setscheduler(0, SCHED_OTHER, &none);
}

static void precedence_without_permission_changes_nothing(void **state)
{
	int nice = getpriority(PRIO_PROCESS, 0);
	struct precedence p;

	permit_only(0);
	precedence_take(&p);
	assert_int_equal(policy(), SCHED_OTHER);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
	precedence_give_back(&p);
	permit_only(PERMIT_ALL);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collector_that_takes_a_cpu_loses_its_priority),
		cmocka_unit_test(precedence_restores_the_scheduling_policy),
		cmocka_unit_test(precedence_without_permission_changes_nothing),
		cmocka_unit_test(another_policy_than_the_usual_one_is_kept),
	};

	permit_only(PERMIT_ALL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
