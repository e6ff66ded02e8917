#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/unit_test.h"
#include "target/read_plan.h"
#include "tests/made_runtime.h"

struct seen {
	uint64_t goid;
	enum goroutine_status status;
	uint32_t stack;
	uint32_t flags;
	uint32_t labels;
};

static struct made_runtime runtime;
static struct goroutine_set *set;
static struct seen seen[1024];
static size_t seen_count;

static bool made_time; /* each look at the clock is a microsecond after the one before */

int clock_gettime(clockid_t id, struct timespec *ts)
{
	static uint64_t now;

	if (!made_time)
		return syscall(SYS_clock_gettime, id, ts);
	now += 1000;
	*ts = (struct timespec){now / 1000000000, now % 1000000000};
	return 0;
}

static struct error *changed(void *arg, const struct goroutine_record *before,
			     struct goroutine_record *now, const uint8_t *header)
{
	seen[seen_count++] = (struct seen){now->goid, goroutine_status(now), now->stack, now->flags,
					   now->labels};
	return NULL;
}

static void start(int minor, size_t count, bool keep_state)
{
	struct goroutine_options options = {.stack_limit = 65536,
					    .keep_state = keep_state,
					    .changed = changed};

	made_runtime_init(&runtime, minor, count);
	assert_null(goroutine_set_open(&runtime.base, &runtime.img, &runtime.lay, &options, &set));
}

static int stop(void **state)
{
	goroutine_set_close(set);
	made_runtime_release(&runtime);
	made_time = false;
	return 0;
}

static void look(void)
{
	const struct goroutine_unit *units;
	size_t count, scanned;

	seen_count = 0;
	assert_null(goroutine_set_refresh(set));
	assert_null(goroutine_set_plan(set, 8192, &units, &count));
	for (uint32_t i = 0; i < count; i++)
		assert_null(goroutine_set_scan(set, &i, 1, &scanned));
}

/* As look(), all units at once: many stacks are read together then. */
static void look_at_all(void)
{
	const struct goroutine_unit *units;
	uint32_t order[MADE_MAX];
	size_t count, scanned;

	seen_count = 0;
	assert_null(goroutine_set_refresh(set));
	assert_null(goroutine_set_plan(set, 8192, &units, &count));
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	assert_null(goroutine_set_scan(set, order, count, &scanned));
	assert_int_equal(scanned, count);
}

static const char *function_of(uint32_t stack, size_t i)
{
	struct stack s = stacks_get(goroutine_set_stacks(set), stack);
	static struct go_frame frame;

	assert_true(i < s.count);
	assert_int_equal(pclntab_frames(&runtime.img.functions, s.pcs[i], &frame, 1), 1);
	return frame.function;
}

static void every_goroutine_is_seen_with_its_stack(void **state)
{
	start(27, 40, false);
	look();
	assert_int_equal(seen_count, 40);
	for (size_t i = 0; i < 40; i++) {
		assert_int_equal(seen[i].status, G_WAITING);
		assert_string_equal(function_of(seen[i].stack, 0), "main.leaf");
		assert_string_equal(function_of(seen[i].stack, 1), "main.root");
		assert_string_equal(function_of(seen[i].stack, 2), "runtime.goexit");
	}
	assert_string_equal(goroutine_set_wait_reason(set, 1), "chan receive");
	assert_string_equal(goroutine_set_wait_reason(set, 2), "sleep");
	assert_string_equal(goroutine_set_wait_reason(set, 200), "unknown wait reason");
}

static void unchanged_goroutine_is_not_read_again(void **state)
{
	start(27, 40, false);
	look();
	look();
	assert_int_equal(seen_count, 0);
	assert_int_equal(goroutine_set_stats(set)->stacks, 40);
	made_park(&runtime, 7, true);
	look();
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].goid, 8);
	assert_string_equal(function_of(seen[0].stack, 0), "main.other");
}

static void goroutine_that_ran_in_between_is_changed(void **state)
{
	start(27, 3, false);
	look();
	made_park(&runtime, 1, false);
	look();
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].goid, 2);
}

static void new_goroutines_are_found(void **state)
{
	start(27, 20, false);
	runtime.all_length = 10;
	look();
	assert_int_equal(seen_count, 10);
	runtime.all_length = 20;
	look();
	assert_int_equal(seen_count, 10);
	assert_int_equal(goroutine_set_count(set), 20);
}

static void the_dead_are_reported_once(void **state)
{
	start(27, 3, false);
	look();
	made_set_status(&runtime, 2, G_DEAD);
	look();
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].status, G_DEAD);
	look();
	assert_int_equal(seen_count, 0);
}

static void long_dead_ones_are_looked_at_rarely(void **state)
{
	uint64_t before;

	start(27, 40, true);
	for (size_t i = 0; i < 40; i++)
		made_set_status(&runtime, i, G_DEAD);
	for (int i = 0; i < 10; i++)
		look();
	before = goroutine_set_stats(set)->scans;
	for (int i = 0; i < 300; i++)
		look();
	assert_true(goroutine_set_stats(set)->scans - before < 40 * 300 / 10);
	made_park(&runtime, 3, false);
	made_set_status(&runtime, 3, G_WAITING);
	for (int i = 0; i < 64 && !seen_count; i++)
		look();
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].goid, 4);
	before = goroutine_set_stats(set)->scans;
	look();
	assert_true(goroutine_set_stats(set)->scans - before >= 16); /* its unit */
}

static void running_goroutine_gets_a_synthetic_stack(void **state)
{
	start(27, 2, false);
	made_set_status(&runtime, 1, G_RUNNING | 0x1000);
	look();
	assert_int_equal(seen[0].status, G_RUNNING);
	assert_string_equal(function_of(seen[0].stack, 0), "[running]");
	assert_string_equal(function_of(seen[0].stack, 1), "main.root");
}

static void system_goroutines_are_marked(void **state)
{
	start(27, 2, false);
	made_set_u64(&runtime, 0, runtime.lay.n.g_startpc, MADE_TEXT + MADE_SYSTEM * MADE_SIZE);
	look();
	assert_int_equal(seen[0].flags & GOROUTINE_SYSTEM, GOROUTINE_SYSTEM);
	assert_int_equal(seen[1].flags & GOROUTINE_SYSTEM, 0);
}

/* Goroutine 0 runs and parks elsewhere, with the very same sp, whenever its stack is being read. */
static size_t disturbances;

static void disturb(struct made_runtime *r, uint64_t address, size_t size)
{
	bool stack =
		address < MADE_STACK + 2048 && address + size > MADE_STACK && address >= MADE_STACK;

	if (!stack || !disturbances)
		return;
	disturbances--;
	made_park(r, 0, false);
	memset(r->stack[0], 0x41, 100);
}

static void goroutine_moving_during_a_read_is_read_again(void **state)
{
	start(27, 5, false);
	runtime.before_read = disturb;
	disturbances = 3;
	look();
	assert_int_equal(seen_count, 5);
	assert_int_equal(goroutine_set_stats(set)->torn, 3);
	assert_int_equal(goroutine_set_stats(set)->unknown, 0);
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(function_of(seen[i].stack, 0), "main.leaf");
}

static void goroutine_moving_in_every_read_has_no_stack(void **state)
{
	start(27, 2, true);
	runtime.before_read = disturb;
	disturbances = 1000;
	look();
	assert_int_equal(seen_count, 2);
	assert_int_equal(goroutine_set_stats(set)->unknown, 1);
	assert_int_equal(seen[1].goid, 1);
	assert_int_equal(seen[1].flags & GOROUTINE_UNKNOWN, GOROUTINE_UNKNOWN);
	assert_int_equal(seen[1].status, G_WAITING);
	assert_string_equal(function_of(seen[1].stack, 0), "[unknown]");
}

static void batch_reads_many_goroutines(void **state)
{
	start(27, 400, false);
	made_time = true; /* how many at once depends on how long they take */
	look_at_all();
	assert_int_equal(seen_count, 400);
	assert_int_equal(goroutine_set_stats(set)->torn, 0);
	for (size_t i = 0; i < 400; i++)
		assert_string_equal(function_of(seen[i].stack, 0), "main.leaf");
	/* One by one, it would take 800 reads. */
	assert_true(runtime.reads < 400 / 8);
}

static const struct seen *seen_with(uint64_t goid)
{
	const struct seen *found = NULL;

	for (size_t i = 0; i < seen_count; i++)
		if (seen[i].goid == goid)
			found = &seen[i];
	assert_non_null(found);
	return found;
}

static bool is_in_stack_0(uint64_t address, size_t size)
{
	return address < MADE_STACK + 2048 && address + size > MADE_STACK;
}

/* Another stack of goroutine 0, which a walk takes for a whole one. */
static void change_stack_0(struct made_runtime *r, bool back)
{
	uint64_t other = made_pc(MADE_ROOT, !back);

	memcpy(r->stack[0] + 2048 - 40 + 16, &other, 8);
}

static void goroutine_moving_during_a_batch_is_read_again(void **state)
{
	start(27, 400, true);
	runtime.before_read = disturb;
	disturbances = 3;
	look_at_all();
	assert_int_equal(seen_count, 400);
	assert_int_equal(goroutine_set_stats(set)->torn, 3);
	assert_int_equal(goroutine_set_stats(set)->unknown, 0);
	assert_string_equal(function_of(seen_with(1)->stack, 0), "main.leaf");
}

/* Goroutine 0 runs while its stack is read. When its header is read again, it has parked but has
 * not yet counted its move and left its m. Then it does both. */
static void park_without_counting(struct made_runtime *r, uint64_t address, size_t size)
{
	uint64_t m = MADE_M;

	if (is_in_stack_0(address, size) && disturbances == 2) {
		disturbances--;
		change_stack_0(r, false);
		made_set_u64(r, 0, r->lay.n.g_m, m);
	} else if (address == MADE_G && disturbances == 1) {
		disturbances--;
	} else if (!disturbances) {
		made_set_u64(r, 0, r->lay.n.g_m, 0);
		r->g[0][r->lay.n.g_tracking_seq]++;
		change_stack_0(r, true);
		disturbances = SIZE_MAX;
	}
}

static void goroutine_with_an_old_counter_is_read_again(void **state)
{
	start(27, 400, false);
	runtime.before_read = park_without_counting;
	disturbances = 2;
	look_at_all();
	assert_int_equal(disturbances, SIZE_MAX);
	assert_int_equal(goroutine_set_stats(set)->torn, 1);
	assert_int_equal(stacks_get(goroutine_set_stacks(set), seen_with(1)->stack).pcs[1],
			 made_pc(MADE_ROOT, false));
}

/* Goroutine 0 moves 256 times behind a read of its stack that takes long, and counts none. */
static void move_256_times(struct made_runtime *r, uint64_t address, size_t size)
{
	if (!disturbances)
		return;
	if (is_in_stack_0(address, size)) {
		disturbances--;
	} else if (disturbances == 1) {
		disturbances--;
		usleep(1000);
		change_stack_0(r, false);
	}
}

static void goroutine_with_a_wrapped_counter_is_read_again(void **state)
{
	start(27, 400, false);
	runtime.before_read = move_256_times;
	disturbances = 2;
	look_at_all();
	assert_int_equal(disturbances, 0);
	assert_true(goroutine_set_stats(set)->torn >= 1);
	assert_int_equal(stacks_get(goroutine_set_stacks(set), seen_with(1)->stack).pcs[1],
			 made_pc(MADE_ROOT, true));
}

/* Goroutine 0 leaves its system call and makes the same one again, from another place: from Go
 * 1.26 on only m.syscalltick shows it. */
static void new_system_call(struct made_runtime *r, uint64_t address, size_t size)
{
	uint64_t other = made_pc(MADE_ROOT, true);

	if (!disturbances || address >= MADE_STACK + 2048 || address + size <= MADE_STACK)
		return;
	disturbances--;
	r->m[0][r->lay.n.m_syscalltick]++;
	memcpy(r->stack[0] + 2048 - 40 + 16, &other, 8);
}

static void a_system_call_is_known_by_its_tick(void **state)
{
	start(27, 1, false);
	made_set_status(&runtime, 0, G_SYSCALL);
	made_set_u64(&runtime, 0, runtime.lay.n.g_m, MADE_M);
	made_set_u64(&runtime, 0, runtime.lay.n.g_syscallsp, MADE_STACK + 2048 - 40);
	made_set_u64(&runtime, 0, runtime.lay.n.g_syscallpc, made_pc(MADE_LEAF, false));
	runtime.before_read = new_system_call;
	disturbances = 1;
	look();
	assert_int_equal(goroutine_set_stats(set)->torn, 1);
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].status, G_SYSCALL);
}

static void garbage_in_the_list_is_left_out(void **state)
{
	start(27, 6, false);
	runtime.allg[1] = 0;
	runtime.allg[2] = 0x1234567;
	runtime.allg[3] = UINT64_MAX - 7;
	look();
	assert_int_equal(goroutine_set_count(set), 3);
	assert_int_equal(seen_count, 3);
}

static void an_absurd_count_is_refused(void **state)
{
	struct error *err;

	start(27, 1, false);
	runtime.all_length = UINT64_MAX / 16;
	err = goroutine_set_refresh(set);
	assert_non_null(err);
	assert_int_equal(err->code, ERROR_CORRUPT);
	error_destroy(err);
}

static void a_stack_pointer_that_lies_is_not_followed(void **state)
{
	start(27, 3, false);
	made_set_u64(&runtime, 0, runtime.lay.n.g_sched_sp, 0x10);
	made_set_u64(&runtime, 1, runtime.lay.n.g_sched_sp, MADE_STACK + (1ull << 40));
	look();
	assert_int_equal(seen_count, 3);
	assert_int_equal(goroutine_set_stats(set)->unknown, 2);
}

static void old_versions_are_read_as_well(void **state)
{
	start(17, 5, false);
	look();
	assert_int_equal(seen_count, 5);
	assert_string_equal(function_of(seen[4].stack, 0), "main.leaf");
}

static void neighbours_are_read_together(void **state)
{
	struct plan_piece pieces[] = {{0x1000, 100, 0},
				      {0x1050, 100, 0},
				      {0x1800, 8, 0},
				      {0x9000, 8, 0}};
	struct plan plan = {0};

	for (size_t i = 0; i < 4; i++)
		assert_true(plan_merge(&plan, &pieces[i], 0));
	assert_int_equal(plan.count, 2);
	assert_int_equal(plan.ranges[0].size, 0x808);
	assert_int_equal(plan.bytes, 0x808 + 8);
	assert_int_equal(pieces[1].offset, 0x50);
	assert_int_equal(pieces[2].offset, 0x800);
	assert_int_equal(pieces[3].offset, 0x808);
	plan_release(&plan);
}

static void nothing_to_look_at_is_no_error(void **state)
{
	start(27, 0, false);
	look();
	assert_int_equal(seen_count, 0);
}

#define RUNTIME_TEST(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RUNTIME_TEST(every_goroutine_is_seen_with_its_stack),
		RUNTIME_TEST(unchanged_goroutine_is_not_read_again),
		RUNTIME_TEST(goroutine_that_ran_in_between_is_changed),
		RUNTIME_TEST(new_goroutines_are_found),
		RUNTIME_TEST(the_dead_are_reported_once),
		RUNTIME_TEST(long_dead_ones_are_looked_at_rarely),
		RUNTIME_TEST(running_goroutine_gets_a_synthetic_stack),
		RUNTIME_TEST(system_goroutines_are_marked),
		RUNTIME_TEST(goroutine_moving_during_a_read_is_read_again),
		RUNTIME_TEST(goroutine_moving_in_every_read_has_no_stack),
		RUNTIME_TEST(batch_reads_many_goroutines),
		RUNTIME_TEST(goroutine_moving_during_a_batch_is_read_again),
		RUNTIME_TEST(goroutine_with_an_old_counter_is_read_again),
		RUNTIME_TEST(goroutine_with_a_wrapped_counter_is_read_again),
		RUNTIME_TEST(a_system_call_is_known_by_its_tick),
		RUNTIME_TEST(garbage_in_the_list_is_left_out),
		RUNTIME_TEST(an_absurd_count_is_refused),
		RUNTIME_TEST(a_stack_pointer_that_lies_is_not_followed),
		RUNTIME_TEST(old_versions_are_read_as_well),
		cmocka_unit_test(neighbours_are_read_together),
		RUNTIME_TEST(nothing_to_look_at_is_no_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
