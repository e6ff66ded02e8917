#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/unit_test.h"
#include "sample/wall.h"
#include "tests/made_runtime.h"

static struct made_runtime runtime;
static struct wall_sampler *sampler;
static atomic_int stop_flag;

static void run(const struct wall_options *options)
{
	struct wall_options o = *options;

	o.stop = &stop_flag;
	o.stack_limit = 65536;
	assert_null(wall_sampler_open(&runtime.base, &runtime.img, &runtime.lay, &o, &sampler));
	assert_null(wall_sampler_run(sampler));
}

static int set_up(void **state)
{
	stop_flag = 0;
	made_runtime_init(&runtime, 27, MADE_MAX);
	return 0;
}

static int tear_down(void **state)
{
	wall_sampler_close(sampler);
	made_runtime_release(&runtime);
	return 0;
}

struct total {
	uint64_t ns, count, idle_ns;
};

static struct total total_of(enum goroutine_status status)
{
	const struct wall_bucket *buckets;
	size_t n = wall_sampler_buckets(sampler, &buckets);
	struct total t = {0};

	for (size_t i = 0; i < n; i++) {
		if (buckets[i].status != status)
			continue;
		t.ns += buckets[i].ns;
		t.count += buckets[i].count;
		t.idle_ns += buckets[i].idle_ns;
	}
	return t;
}

static void sampler_credits_all_time_once(void **state)
{
	const struct wall_result *r;
	struct total waiting;

	run(&(struct wall_options){.hz = 200, .duration = 0.2});
	r = wall_sampler_result(sampler);
	waiting = total_of(G_WAITING);
	assert_int_equal(waiting.ns, MADE_MAX * r->duration_ns);
	assert_int_equal(waiting.idle_ns, waiting.ns);
	assert_int_equal(waiting.count, MADE_MAX * r->ticks);
	assert_true(r->duration_ns >= 200000000);
	assert_int_equal(goroutine_set_stats(wall_sampler_set(sampler))->stacks, MADE_MAX);
}

/* Half way through, goroutine 0 begins to run. */
static void run_half_way(struct made_runtime *r, uint64_t address, size_t size)
{
	static uint64_t began;

	if (address == 0x700000)
		began = began ? began : clock_now();
	if (began && clock_now() - began > 100000000)
		made_set_status(r, 0, G_RUNNING);
}

static void a_change_ends_the_time_of_what_was(void **state)
{
	const struct wall_result *r;
	struct total running;

	runtime.before_read = run_half_way;
	run(&(struct wall_options){.hz = 100, .duration = 0.2});
	r = wall_sampler_result(sampler);
	running = total_of(G_RUNNING);
	assert_int_equal(running.ns + total_of(G_WAITING).ns, MADE_MAX * r->duration_ns);
	assert_in_range(running.ns, 60000000, r->duration_ns - 90000000);
	assert_int_equal(running.idle_ns, 0);
	assert_int_equal(total_of(G_WAITING).idle_ns, (MADE_MAX - 1) * r->duration_ns);
}

/* Whatever the budget, all time is accounted for: the last state stands until there is CPU time for
 * the next look. */
static void sampler_over_budget_loses_no_time(void **state)
{
	static const double budgets[] = {0.00001, 0.0001, 0.001, 0.01};

	for (size_t i = 0; i < 4; i++) {
		const struct wall_result *r;

		run(&(struct wall_options){.hz = 100, .duration = 0.2, .budget = budgets[i]});
		r = wall_sampler_result(sampler);
		assert_int_equal((uint64_t)(total_of(G_WAITING).ns / 1e6 + 0.5),
				 (uint64_t)(MADE_MAX * r->duration_ns / 1e6 + 0.5));
		if (i < 3)
			wall_sampler_close(sampler);
	}
}

/* A sampler in debt does not wake up for a tick. */
static void sampler_over_budget_skips_ticks(void **state)
{
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	run(&(struct wall_options){.hz = 200, .duration = 0.5, .budget = 0.00001});
	getrusage(RUSAGE_SELF, &after);
	assert_in_range(wall_sampler_result(sampler)->ticks, 50, 100);
	assert_in_range(after.ru_nvcsw - before.ru_nvcsw, 10, 40);
}

static void open_in_steps(void)
{
	static const struct wall_options options = {.hz = 200,
						    .creators = true,
						    .stack_limit = 65536,
						    .stop = &stop_flag};

	assert_null(
		wall_sampler_open(&runtime.base, &runtime.img, &runtime.lay, &options, &sampler));
	assert_null(wall_sampler_begin(sampler));
}

static struct wall_interval interval_after(size_t steps)
{
	struct wall_interval interval;
	bool more;

	for (size_t i = 0; i < steps; i++) {
		assert_null(wall_sampler_step(sampler, &more));
		assert_true(more);
	}
	assert_null(wall_sampler_interval(sampler, &interval));
	return interval;
}

static uint64_t interval_total(const struct wall_interval *interval, enum goroutine_status status)
{
	uint64_t total = 0;

	for (size_t i = 0; i < interval->count; i++)
		total += interval->buckets[i].status == status ? interval->buckets[i].ns : 0;
	return total;
}

static void an_interval_tells_what_was_seen_since_the_one_before(void **state)
{
	struct wall_interval interval;

	open_in_steps();
	interval = interval_after(3);
	assert_true(interval.ns > 0);
	assert_int_equal(interval_total(&interval, G_WAITING), MADE_MAX * interval.ns);
	interval = interval_after(0);
	assert_int_equal(interval.ns, 0);
	assert_int_equal(interval_total(&interval, G_WAITING), 0);
	made_set_status(&runtime, 0, G_RUNNING);
	interval_after(2);
	interval = interval_after(4);
	assert_int_equal(interval_total(&interval, G_WAITING), (MADE_MAX - 1) * interval.ns);
	assert_int_equal(interval_total(&interval, G_RUNNING), interval.ns);
}

static void a_goroutine_stands_since_it_came_there(void **state)
{
	struct goroutine_record *records;
	uint64_t start = clock_now(), since;

	open_in_steps();
	interval_after(3);
	records = goroutine_set_records(wall_sampler_set(sampler));
	assert_true(wall_sampler_counts(&records[0]));
	since = wall_sampler_since(sampler, &records[1]);
	assert_true(since <= clock_now());
	made_set_status(&runtime, 0, G_RUNNING);
	interval_after(3);
	assert_true(wall_sampler_since(sampler, &records[0]) > start);
	assert_true(wall_sampler_since(sampler, &records[0]) > since);
	assert_int_equal(wall_sampler_since(sampler, &records[1]), since);
}

/* A hostile program may have a go statement in each byte of its code. */
static void go_statements_past_the_limit_are_counted(void **state)
{
	struct wall_options options = {.hz = 5000,
				       .creators = true,
				       .stack_limit = 65536,
				       .stop = &stop_flag};
	const struct golayout_numbers *n = &runtime.lay.n;
	const struct wall_result *r;
	bool more;

	assert_null(
		wall_sampler_open(&runtime.base, &runtime.img, &runtime.lay, &options, &sampler));
	r = wall_sampler_result(sampler);
	assert_null(wall_sampler_begin(sampler));
	for (uint64_t step = 1; step < 1000 && !r->creators_left_out; step++) {
		for (size_t i = 0; i < MADE_MAX; i++) {
			uint64_t id = step * MADE_MAX + i;

			made_set_u64(&runtime, i, n->g_goid, id);
			made_set_u64(&runtime, i, n->g_gopc, MADE_TEXT + id);
		}
		assert_null(wall_sampler_step(sampler, &more));
	}
	assert_in_range(r->creators_left_out, 1, MADE_MAX);
}

static void sampler_accepts_one_goroutine_id(void **state)
{
	const struct wall_result *r;

	run(&(struct wall_options){.hz = 100, .duration = 0.05, .goid = 5});
	r = wall_sampler_result(sampler);
	assert_int_equal(total_of(G_WAITING).ns, r->duration_ns);
}

/* Once. */
static void read_slowly(struct made_runtime *r, uint64_t address, size_t size)
{
	r->before_read = NULL;
	nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}

static void end_at_once(void *arg, double seconds, uint64_t looks)
{
	*(uint64_t *)arg = looks;
	stop_flag = 1;
}

static void held_program_is_seen_even_if_it_ends_at_once(void **state)
{
	uint64_t looks = 0;
	struct wall_options options = {.hz = 10,
				       .held = true,
				       .progress = end_at_once,
				       .arg = &looks};
	const struct wall_result *r;
	struct total waiting;

	run(&options);
	r = wall_sampler_result(sampler);
	waiting = total_of(G_WAITING);
	assert_int_equal(looks, MADE_MAX);
	assert_int_equal(r->ticks, 1);
	assert_int_equal(waiting.count, MADE_MAX);
	assert_int_equal(waiting.ns, MADE_MAX * r->duration_ns);
}

/* The time for which it was held does not count. */
static void a_held_programs_time_begins_when_it_runs(void **state)
{
	uint64_t looks = 0;
	struct wall_options options = {.hz = 10,
				       .held = true,
				       .progress = end_at_once,
				       .arg = &looks,
				       .stack_limit = 65536,
				       .stop = &stop_flag};

	assert_null(
		wall_sampler_open(&runtime.base, &runtime.img, &runtime.lay, &options, &sampler));
	runtime.before_read = read_slowly;
	assert_null(wall_sampler_run(sampler));
	assert_null(runtime.before_read);
	assert_int_equal(looks, MADE_MAX);
	assert_in_range(wall_sampler_result(sampler)->duration_ns, 0, 199999999);
}

static void a_recording_can_be_stopped(void **state)
{
	stop_flag = 1;
	run(&(struct wall_options){.hz = 100});
	assert_int_equal(wall_sampler_result(sampler)->ticks, 0);
	assert_int_equal(total_of(G_WAITING).ns, 0);
}

/* Samples of goroutine 0, all at one place. */
struct made_source {
	struct cpu_bucket bucket;
	size_t drained;
};

static struct error *drain_made(void *arg)
{
	struct made_source *source = arg;
	struct goroutine_set *set = wall_sampler_set(sampler);
	const uint64_t word = MADE_TEXT + MADE_OTHER * MADE_SIZE + 1;

	source->drained++;
	source->bucket.start_pc = MADE_TEXT + MADE_ROOT * MADE_SIZE;
	source->bucket.count++;
	return stacks_intern(goroutine_set_stacks(set), &word, 1, &source->bucket.stack);
}

static size_t made_buckets(void *arg, const struct cpu_bucket **ret)
{
	*ret = &((struct made_source *)arg)->bucket;
	return 1;
}

static uint64_t ns_at(uint32_t stack)
{
	const struct wall_bucket *buckets;
	size_t n = wall_sampler_buckets(sampler, &buckets);
	uint64_t ns = 0;

	for (size_t i = 0; i < n; i++)
		if (buckets[i].stack == stack && buckets[i].status == G_RUNNING)
			ns += buckets[i].ns;
	return ns;
}

static void a_source_of_samples_is_drained_at_each_tick_and_says_what_ran(void **state)
{
	const struct wall_options options = {.hz = 200,
					     .duration = 0.2,
					     .stack_limit = 65536,
					     .stop = &stop_flag};
	struct made_source source = {0};
	const struct cpu_source used = {.arg = &source,
					.drain = drain_made,
					.buckets = made_buckets,
					.period_ns = 5000000};

	made_set_status(&runtime, 0, G_RUNNING);
	assert_null(
		wall_sampler_open(&runtime.base, &runtime.img, &runtime.lay, &options, &sampler));
	wall_sampler_use(sampler, &used);
	assert_null(wall_sampler_run(sampler));
	assert_true(source.drained > 0);
	assert_int_equal(source.drained, wall_sampler_result(sampler)->ticks);
	assert_true(total_of(G_RUNNING).ns > 0);
	assert_int_equal(ns_at(source.bucket.stack), total_of(G_RUNNING).ns);
}

#define WALL_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WALL_TEST(sampler_credits_all_time_once),
		WALL_TEST(a_change_ends_the_time_of_what_was),
		WALL_TEST(sampler_over_budget_loses_no_time),
		WALL_TEST(sampler_over_budget_skips_ticks),
		WALL_TEST(an_interval_tells_what_was_seen_since_the_one_before),
		WALL_TEST(a_goroutine_stands_since_it_came_there),
		WALL_TEST(go_statements_past_the_limit_are_counted),
		WALL_TEST(held_program_is_seen_even_if_it_ends_at_once),
		WALL_TEST(a_held_programs_time_begins_when_it_runs),
		WALL_TEST(sampler_accepts_one_goroutine_id),
		WALL_TEST(a_recording_can_be_stopped),
		WALL_TEST(a_source_of_samples_is_drained_at_each_tick_and_says_what_ran),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
