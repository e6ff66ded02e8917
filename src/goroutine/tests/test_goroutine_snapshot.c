/* One goroutine's stack memory, taken while it may move. */
#include <string.h>

#include "base/unit_test.h"
#include "goroutine/goroutine_snapshot.h"
#include "tests/made_runtime.h"

#define OWN_SP(i) (MADE_STACK + (i)*8192 + 2048 - 40) /* where made_park() puts goroutine i */

static struct made_runtime runtime;
static struct goroutine_set *set;
static struct goroutine_snapshot taken;
static bool runs;
static int moves;

static int start(void **state)
{
	struct goroutine_options options = {.stack_limit = 65536};

	made_runtime_init(&runtime, 27, 8);
	return error_dropped(
		goroutine_set_open(&runtime.base, &runtime.img, &runtime.lay, &options, &set));
}

static int stop(void **state)
{
	goroutine_snapshot_release(&taken);
	goroutine_set_close(set);
	made_runtime_release(&runtime);
	return 0;
}

static uint64_t goid_of(size_t i)
{
	uint64_t goid;

	memcpy(&goid, runtime.g[i] + runtime.lay.n.g_goid, sizeof(goid));
	return goid;
}

static void a_parked_goroutine_comes_with_its_memory_and_frames(void **state)
{
	uint64_t word;

	made_set_u64(&runtime, 3, runtime.lay.n.g_sched_bp, OWN_SP(3) + 8);
	assert_null(goroutine_snapshot_take(set, goid_of(3), &runs, &taken));
	assert_int_equal(taken.goid, goid_of(3));
	assert_int_equal(taken.status, G_WAITING);
	assert_int_equal(taken.wait_reason, 1);
	assert_int_equal(taken.memory.sp, OWN_SP(3));
	assert_int_equal(taken.memory.size, 40);
	assert_true(taken.memory.whole);
	assert_int_equal(taken.fp, OWN_SP(3) + 8);
	assert_false(taken.has_general);
	memcpy(&word, taken.memory.bytes + 16, sizeof(word));
	assert_int_equal(word, made_pc(MADE_ROOT, false));
	assert_int_equal(taken.frames.end, FRAMES_WHOLE);
	assert_int_equal(taken.frames.count, 3);
	assert_int_equal(taken.frames.items[0].return_at, OWN_SP(3) + 16);
}

/* It runs and parks elsewhere, just when its stack was read, twice. */
static void move_once(struct made_runtime *r, uint64_t address, size_t size)
{
	if (address == OWN_SP(3) && size == 40 && moves++ < 2)
		made_park(r, 3, true);
}

static void snapshot_retries_a_moving_goroutine(void **state)
{
	moves = 0;
	runtime.before_read = move_once;
	assert_null(goroutine_snapshot_take(set, goid_of(3), &runs, &taken));
	assert_int_equal(moves, 3);
	assert_int_equal(taken.memory.pc, made_pc(MADE_OTHER, false));
}

static void refused(uint64_t goid, const char *words)
{
	struct error *err = goroutine_snapshot_take(set, goid, &runs, &taken);

	assert_non_null(err);
	assert_int_equal(err->code, ERROR_FAILED);
	assert_non_null(strstr(err->message, words));
	error_destroy(err);
	assert_null(taken.bytes);
}

static void a_running_goroutine_is_said_to_run_and_filled_from_a_sample(void **state)
{
	struct goroutine_memory sample = {.has_general = true};
	uint64_t low, end;

	made_set_status(&runtime, 3, G_RUNNING);
	assert_null(goroutine_snapshot_take(set, goid_of(3), &runs, &taken));
	assert_true(runs);
	assert_null(taken.bytes);
	assert_true(goroutine_snapshot_bounds(set, &taken, &low, &end));
	assert_int_equal(end, taken.stack_end);
	assert_true(low < OWN_SP(3) && OWN_SP(3) < taken.stack_end);
	sample.memory = (struct stack_memory){
		.pc = made_pc(MADE_OTHER, false),
		.sp = OWN_SP(3),
		.bytes = runtime.stack[3] + 2048 - 40,
		.size = 32,
	};
	assert_null(goroutine_snapshot_fill(set, &sample, &taken));
	assert_int_equal(taken.memory.size, 32);
	assert_false(taken.memory.whole);
	sample.memory.size = 4096; /* as far as the stack goes */
	goroutine_snapshot_release(&taken);
	assert_null(goroutine_snapshot_take(set, goid_of(3), &runs, &taken));
	assert_null(goroutine_snapshot_fill(set, &sample, &taken));
	assert_int_equal(taken.memory.size, 40);
	assert_true(taken.memory.whole);
	made_set_status(&runtime, 3, G_DEAD);
	assert_false(goroutine_snapshot_bounds(set, &taken, &low, &end));
}

static void stop_running(struct made_runtime *r, uint64_t address, size_t size)
{
	if (address == MADE_G + 3 * 512 && ++moves == 20)
		made_park(r, 3, false);
}

static void snapshot_waits_until_the_goroutine_parks(void **state)
{
	moves = 0;
	made_set_status(&runtime, 3, G_RUNNING);
	runtime.before_read = stop_running;
	assert_null(goroutine_snapshot_take(set, goid_of(3), &runs, &taken));
	assert_int_equal(taken.frames.count, 3);
}

static void snapshot_of_a_missing_goroutine_fails(void **state)
{
	refused(123456, "there is no goroutine 123456");
	made_set_status(&runtime, 3, G_DEAD);
	refused(goid_of(3), "there is no goroutine");
}

static void a_stack_pointer_outside_of_the_stack_is_refused(void **state)
{
	made_set_u64(&runtime, 3, runtime.lay.n.g_sched_sp, 0x1000);
	refused(goid_of(3), "ran during every attempt");
}

static void a_stack_that_leads_nowhere_is_taken_as_far_as_it_is_known(void **state)
{
	uint64_t nowhere = 0x12345;

	memcpy(runtime.stack[3] + 2048 - 40 + 16, &nowhere, sizeof(nowhere));
	assert_null(goroutine_snapshot_take(set, goid_of(3), &runs, &taken));
	assert_int_equal(taken.frames.end, FRAMES_TORN);
	assert_int_equal(taken.frames.count, 1);
}

#define SNAPSHOT_TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SNAPSHOT_TEST(a_parked_goroutine_comes_with_its_memory_and_frames),
		SNAPSHOT_TEST(snapshot_retries_a_moving_goroutine),
		SNAPSHOT_TEST(a_running_goroutine_is_said_to_run_and_filled_from_a_sample),
		SNAPSHOT_TEST(snapshot_waits_until_the_goroutine_parks),
		SNAPSHOT_TEST(snapshot_of_a_missing_goroutine_fails),
		SNAPSHOT_TEST(a_stack_pointer_outside_of_the_stack_is_refused),
		SNAPSHOT_TEST(a_stack_that_leads_nowhere_is_taken_as_far_as_it_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
