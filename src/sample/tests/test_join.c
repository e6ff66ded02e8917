#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "sample/join.h"
#include "tests/made_runtime.h"

#define START (MADE_TEXT + MADE_ROOT * MADE_SIZE)
#define OTHER_START (MADE_TEXT + MADE_OTHER * MADE_SIZE)
#define SYSTEM_START (MADE_TEXT + MADE_SYSTEM * MADE_SIZE)
#define PERIOD 10000000u

static struct made_runtime runtime;
static struct goroutine_set *set;
static struct buckets buckets;

static int set_up(void **state)
{
	struct goroutine_options options = {.stack_limit = 65536};

	made_runtime_init(&runtime, 27, 1);
	buckets = (struct buckets){0};
	return error_dropped(
		goroutine_set_open(&runtime.base, &runtime.img, &runtime.lay, &options, &set));
}

static int tear_down(void **state)
{
	buckets_release(&buckets);
	goroutine_set_close(set);
	made_runtime_release(&runtime);
	return 0;
}

static uint32_t stack_of(uint64_t first, uint64_t second)
{
	uint64_t pcs[] = {first, second};
	uint32_t id;

	assert_null(stacks_intern(goroutine_set_stacks(set), pcs, 2, &id));
	return id;
}

static void add_running(uint64_t start, uint64_t ns, uint64_t count)
{
	struct goroutine_record r = {.key = G_RUNNING,
				     .stack = stack_of(STACK_PC_RUNNING, start | STACK_PC_EXACT)};
	uint32_t place = buckets_of(&buckets, &r);

	buckets.items[place].ns = buckets.items[place].cpu_ns = ns;
	buckets.items[place].count = count;
}

static const struct wall_bucket *find(enum goroutine_status status, uint32_t stack)
{
	struct goroutine_record r = {.key = status, .stack = stack};

	uint32_t place = buckets_of(&buckets, &r);

	return &buckets.items[place];
}

static void join(const struct cpu_bucket *samples, size_t count)
{
	assert_null(buckets_join(&buckets, set, samples, count, PERIOD, false));
}

static void running_time_is_shared_as_samples_are(void **state)
{
	uint32_t a = stack_of(made_pc(MADE_LEAF, false), 1),
		 b = stack_of(made_pc(MADE_LEAF, true), 1);
	struct cpu_bucket samples[] = {{.start_pc = START, .stack = a, .count = 3},
				       {.start_pc = START, .stack = b, .count = 1}};

	struct wall_share shares[2];

	add_running(START, 1000, 8);
	join(samples, 2);
	assert_int_equal(buckets_shares(&buckets.items[1], set, samples, 2, PERIOD, shares, 2), 2);
	assert_int_equal(shares[0].stack, a);
	assert_int_equal(shares[0].ns, 3 * PERIOD);
	assert_int_equal(shares[1].stack, b);
	assert_int_equal(buckets_shares(&buckets.items[1], set, samples, 2, PERIOD, shares, 1), 1);
	assert_int_equal(shares[0].stack, a);
	assert_int_equal(find(G_RUNNING, a)->ns, 750);
	assert_int_equal(find(G_RUNNING, b)->ns, 250);
	assert_int_equal(find(G_RUNNING, a)->count, 6);
	assert_int_equal(find(G_RUNNING, a)->cpu_ns, 3 * PERIOD);
	assert_int_equal(find(G_RUNNING, stack_of(STACK_PC_RUNNING, START | STACK_PC_EXACT))->ns,
			 0);
}

/* 10 ms of CPU time and 30 ms of waits at one place, 10 ms of CPU time at the other. */
static void running_time_is_shared_as_waits_are_too(void **state)
{
	uint32_t a = stack_of(made_pc(MADE_LEAF, false), 1),
		 b = stack_of(made_pc(MADE_LEAF, true), 1);
	struct cpu_bucket samples[] =
		{{.start_pc = START, .stack = a, .count = 1, .waits = 2, .waited_ns = 3 * PERIOD},
		 {.start_pc = START, .stack = b, .count = 1}};

	add_running(START, 1000, 10);
	join(samples, 2);
	assert_int_equal(find(G_RUNNING, a)->ns, 800);
	assert_int_equal(find(G_RUNNING, b)->ns, 200);
	assert_int_equal(find(G_RUNNING, a)->cpu_ns, PERIOD);
	assert_int_equal(find(G_RUNNING, b)->cpu_ns, PERIOD);
}

static void waiting_goroutine_gets_no_cpu_time(void **state)
{
	uint32_t a = stack_of(made_pc(MADE_LEAF, false), 1);
	struct cpu_bucket samples[] =
		{{.start_pc = START, .stack = a, .waits = 1, .waited_ns = 2 * PERIOD},
		 {.start_pc = OTHER_START, .stack = a, .waits = 1, .waited_ns = 2 * PERIOD}};

	add_running(START, 1000, 10);
	join(samples, 2);
	assert_int_equal(find(G_RUNNING, a)->ns, 1000);
	assert_int_equal(find(G_RUNNING, a)->cpu_ns, 0);
}

static void goroutine_without_a_cpu_sample_stays_running(void **state)
{
	uint32_t a = stack_of(made_pc(MADE_LEAF, false), 1);
	struct cpu_bucket samples[] = {{.start_pc = START, .stack = a, .count = 3}};

	add_running(OTHER_START, 1000, 8);
	join(samples, 1);
	assert_int_equal(find(G_RUNNING, stack_of(STACK_PC_RUNNING, OTHER_START | STACK_PC_EXACT))
				 ->ns,
			 1000);
	/* A goroutine that was never seen running counts as its CPU time. */
	assert_int_equal(find(G_RUNNING, a)->ns, 3 * PERIOD);
}

static void a_system_call_that_memory_has_not_seen_brings_cpu_time_alone(void **state)
{
	uint32_t a = stack_of(made_pc(MADE_LEAF, false), 1);
	struct cpu_bucket samples[] = {
		{.start_pc = START, .stack = a, .count = 2, .in_syscall = true}};

	add_running(START, 1000, 8);
	join(samples, 1);
	assert_int_equal(find(G_SYSCALL, a)->ns, 0);
	assert_int_equal(find(G_SYSCALL, a)->cpu_ns, 2 * PERIOD);
	assert_int_equal(find(G_RUNNING, stack_of(STACK_PC_RUNNING, START | STACK_PC_EXACT))->ns,
			 1000);
}

static void the_runtimes_own_goroutines_stay_hidden(void **state)
{
	uint32_t a = stack_of(made_pc(MADE_LEAF, false), 1);
	struct cpu_bucket samples[] = {{.start_pc = SYSTEM_START, .stack = a, .count = 2}};

	join(samples, 1);
	assert_int_equal(find(G_RUNNING, a)->cpu_ns, 0);
	assert_null(buckets_join(&buckets, set, samples, 1, PERIOD, true));
	assert_int_equal(find(G_RUNNING, a)->cpu_ns, 2 * PERIOD);
}

/* C code: memory shows the caller of cgocall, the sample shows what C does. */
static void time_in_a_system_call_goes_where_it_was_spent(void **state)
{
	uint64_t inner[] = {0x7f0000001234 | STACK_PC_EXACT, made_pc(MADE_LEAF, true),
			    made_pc(MADE_ROOT, false)};
	uint64_t entered[] = {made_pc(MADE_LEAF, false), made_pc(MADE_ROOT, false)};
	struct goroutine_record r = {.key = G_SYSCALL};
	struct cpu_bucket sample = {.start_pc = START, .count = 3, .in_syscall = true};
	uint32_t place;

	assert_null(stacks_intern(goroutine_set_stacks(set), inner, 3, &sample.stack));
	assert_null(stacks_intern(goroutine_set_stacks(set), entered, 2, &r.stack));
	place = buckets_of(&buckets, &r);
	buckets.items[place].ns = 10 * PERIOD;
	buckets.items[place].count = 20;
	join(&sample, 1);
	assert_int_equal(find(G_SYSCALL, sample.stack)->ns, 3 * PERIOD);
	assert_int_equal(find(G_SYSCALL, sample.stack)->cpu_ns, 3 * PERIOD);
	assert_int_equal(find(G_SYSCALL, sample.stack)->count, 6);
	assert_int_equal(find(G_SYSCALL, r.stack)->ns, 7 * PERIOD);
	assert_int_equal(find(G_SYSCALL, r.stack)->count, 14);
}

static void marked_stack_is_shown(void **state)
{
	uint32_t a = stack_of(made_pc(MADE_LEAF, false), STACK_PC_GC);
	struct cpu_bucket samples[] = {
		{.start_pc = SYSTEM_START, .stack = a, .count = 2, .is_marked = true}};

	join(samples, 1);
	assert_int_equal(find(G_RUNNING, a)->cpu_ns, 2 * PERIOD);
}

#define JOIN_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* A program whose stacks and labels are always new. */
static void there_are_not_more_buckets_than_are_kept(void **state)
{
	uint64_t ns = 0;

	for (uint32_t i = 1; i <= 5 * BUCKETS_MOST; i++) {
		struct goroutine_record r = {.key = G_WAITING | (i & 0xff) << 8,
					     .stack = i,
					     .labels = i % 1000,
					     .owner_creator = i % 7};
		uint32_t place = buckets_of(&buckets, &r);

		assert_int_not_equal(place, BUCKET_NONE);
		assert_int_equal(buckets.items[place].wait_reason, i & 0xff);
		buckets.items[place].ns++;
	}
	assert_in_range(buckets.count, 2 * BUCKETS_MOST, 2 * BUCKETS_MOST + 1000);
	assert_int_equal(buckets.crowded, 5 * BUCKETS_MOST - BUCKETS_MOST + 1);
	for (size_t i = 1; i < buckets.count; i++)
		ns += buckets.items[i].ns;
	assert_int_equal(ns, 5 * BUCKETS_MOST);
}

static void a_bucket_that_is_kept_is_found_when_there_are_too_many(void **state)
{
	struct goroutine_record first = {.key = G_WAITING, .stack = 1, .labels = 5}, r = first;
	uint32_t place = buckets_of(&buckets, &first);

	for (r.stack = 2; r.stack <= 2 * BUCKETS_MOST; r.stack++)
		buckets_of(&buckets, &r);
	assert_int_equal(buckets_of(&buckets, &first), place);
	assert_int_equal(buckets.items[place].labels, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		JOIN_TEST(running_time_is_shared_as_samples_are),
		JOIN_TEST(running_time_is_shared_as_waits_are_too),
		JOIN_TEST(waiting_goroutine_gets_no_cpu_time),
		JOIN_TEST(goroutine_without_a_cpu_sample_stays_running),
		JOIN_TEST(a_system_call_that_memory_has_not_seen_brings_cpu_time_alone),
		JOIN_TEST(the_runtimes_own_goroutines_stay_hidden),
		JOIN_TEST(time_in_a_system_call_goes_where_it_was_spent),
		JOIN_TEST(marked_stack_is_shown),
		JOIN_TEST(a_bucket_that_is_kept_is_found_when_there_are_too_many),
		JOIN_TEST(there_are_not_more_buckets_than_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
