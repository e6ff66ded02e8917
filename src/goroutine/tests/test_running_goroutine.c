/* Running goroutines, found by the registers of their threads. */
#include <string.h>

#include "base/unit_test.h"
#include "tests/made_runtime.h"

#define SIGNAL 50 /* the gsignal lies where goroutine 50 would */
#define SIGNAL_LO (MADE_STACK + SIGNAL * 8192ull)
#define SIGNAL_SIZE 2048u
#define THREAD 4711
#define OWN_SP (MADE_STACK + 2048 - 40) /* where made_park() puts goroutine 0 */
#define ELSEWHERE 0x7f0000001000ull

static struct made_runtime runtime;
static struct goroutine_set *set;
static struct goroutine_record seen;
static struct target_registers registers;
static bool known;

static struct error *changed(void *arg, const struct goroutine_record *before,
			     struct goroutine_record *now, const uint8_t *header)
{
	seen = *now;
	return NULL;
}

static bool registers_of(void *arg, uint64_t thread, struct target_registers *ret)
{
	assert_int_equal(thread, THREAD);
	*ret = registers;
	return known;
}

static void put_m(int32_t field, uint64_t value)
{
	memcpy(runtime.m[0] + field, &value, sizeof(value));
}

/* One running goroutine. The test chooses where it is. */
static int start(void **state)
{
	struct goroutine_options options = {.stack_limit = 65536,
					    .changed = changed,
					    .registers = registers_of};
	const struct golayout_numbers *n = &runtime.lay.n;

	made_runtime_init(&runtime, 27, 1);
	made_set_status(&runtime, 0, G_RUNNING);
	made_set_u64(&runtime, 0, n->g_m, MADE_M);
	made_set_u64(&runtime, 0, n->g_sched_sp, 0);
	put_m(n->m_procid, THREAD);
	put_m(n->m_gsignal, MADE_G + SIGNAL * 512);
	made_set_u64(&runtime, SIGNAL, n->g_stack_lo, SIGNAL_LO);
	made_set_u64(&runtime, SIGNAL, n->g_stack_hi, SIGNAL_LO + SIGNAL_SIZE);
	known = true;
	registers = (struct target_registers){.pc = made_pc(MADE_OTHER, false), .sp = OWN_SP};
	return error_dropped(
		goroutine_set_open(&runtime.base, &runtime.img, &runtime.lay, &options, &set));
}

static int stop(void **state)
{
	goroutine_set_close(set);
	made_runtime_release(&runtime);
	return 0;
}

static struct stack look(void)
{
	const struct goroutine_unit *units;
	size_t count, scanned;

	assert_null(goroutine_set_refresh(set));
	assert_null(goroutine_set_plan(set, 8192, &units, &count));
	assert_null(goroutine_set_scan(set, &(uint32_t){0}, 1, &scanned));
	assert_int_equal(goroutine_status(&seen), G_RUNNING);
	return stacks_get(goroutine_set_stacks(set), seen.stack);
}

static void assert_stack(struct stack s, uint64_t leaf)
{
	assert_true(seen.flags & GOROUTINE_ON_CPU);
	assert_int_equal(s.count, 3);
	assert_int_equal(s.pcs[0], leaf);
	assert_int_equal(s.pcs[1], made_pc(MADE_ROOT, false));
	assert_false(s.truncated);
}

static void assert_unknown(struct stack s)
{
	assert_false(seen.flags & GOROUTINE_ON_CPU);
	assert_int_equal(s.pcs[0], STACK_PC_RUNNING);
}

static void put_signal_frame(size_t at, uint64_t pc, uint64_t sp)
{
	uint64_t lo = SIGNAL_LO, size = SIGNAL_SIZE;
	uint8_t *frame = runtime.stack[SIGNAL] + at;

	memcpy(frame + 16, &lo, 8);
	memcpy(frame + 32, &size, 8);
	memcpy(frame + 160, &sp, 8);
	memcpy(frame + 168, &pc, 8);
}

static void on_its_own_stack_it_is_where_the_thread_is(void **state)
{
	assert_stack(look(), made_pc(MADE_OTHER, false) | STACK_PC_EXACT);
}

static void prologue_has_no_frame_yet(void **state)
{
	registers.pc = MADE_TEXT + MADE_OTHER * MADE_SIZE;
	registers.sp = OWN_SP + 16;
	assert_stack(look(), registers.pc | STACK_PC_EXACT);
}

static void on_the_threads_stack_it_is_where_it_left_its_own(void **state)
{
	registers.sp = ELSEWHERE;
	made_set_u64(&runtime, 0, runtime.lay.n.g_sched_sp, OWN_SP);
	assert_stack(look(), made_pc(MADE_LEAF, false));
}

static void signal_handler_shows_the_interrupted_function(void **state)
{
	registers = (struct target_registers){.pc = MADE_TEXT, .sp = SIGNAL_LO + 256};
	put_signal_frame(1024, made_pc(MADE_OTHER, false), OWN_SP);
	/* A signal within the handler. */
	put_signal_frame(512, MADE_TEXT, SIGNAL_LO + 800);
	assert_stack(look(), made_pc(MADE_OTHER, false) | STACK_PC_EXACT);
}

static void a_signal_on_the_threads_stack_leads_to_where_it_left_its_own(void **state)
{
	registers = (struct target_registers){.pc = MADE_TEXT, .sp = SIGNAL_LO + 256};
	put_signal_frame(1024, MADE_TEXT, ELSEWHERE);
	made_set_u64(&runtime, 0, runtime.lay.n.g_sched_sp, OWN_SP);
	assert_stack(look(), made_pc(MADE_LEAF, false));
}

static void missing_signal_frame_leaves_the_stack_unknown(void **state)
{
	registers = (struct target_registers){.pc = MADE_TEXT, .sp = SIGNAL_LO + 256};
	assert_unknown(look());
}

static void missing_registers_leave_the_stack_unknown(void **state)
{
	known = false;
	assert_unknown(look());
}

static void registers_that_lead_nowhere_leave_it_unknown(void **state)
{
	registers.pc = 8;
	assert_unknown(look());
	registers = (struct target_registers){.pc = made_pc(MADE_OTHER, false), .sp = OWN_SP + 1};
	assert_unknown(look());
	registers.sp = OWN_SP + 24;
	assert_unknown(look());
	registers.sp = UINT64_MAX;
	assert_unknown(look());
}

static void gsignal_that_lies_is_not_followed(void **state)
{
	made_set_u64(&runtime, SIGNAL, runtime.lay.n.g_stack_lo, 0);
	made_set_u64(&runtime, SIGNAL, runtime.lay.n.g_stack_hi, UINT64_MAX);
	assert_unknown(look());
	put_m(runtime.lay.n.m_gsignal, 12345678);
	assert_stack(look(), made_pc(MADE_OTHER, false) | STACK_PC_EXACT);
}

int main(void)
{
#define RUNNING_TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)
	const struct CMUnitTest tests[] = {
		RUNNING_TEST(on_its_own_stack_it_is_where_the_thread_is),
		RUNNING_TEST(prologue_has_no_frame_yet),
		RUNNING_TEST(on_the_threads_stack_it_is_where_it_left_its_own),
		RUNNING_TEST(signal_handler_shows_the_interrupted_function),
		RUNNING_TEST(a_signal_on_the_threads_stack_leads_to_where_it_left_its_own),
		RUNNING_TEST(missing_signal_frame_leaves_the_stack_unknown),
		RUNNING_TEST(missing_registers_leave_the_stack_unknown),
		RUNNING_TEST(registers_that_lead_nowhere_leave_it_unknown),
		RUNNING_TEST(gsignal_that_lies_is_not_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
