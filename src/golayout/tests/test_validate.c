#include <stdio.h>
#include <stdlib.h>

#include "golayout/golayout.h"
#include "image/tests/fake_program.h"

#define BASE 0x10000000ull
#define TEXT 0x400000
#define FUNCTION_SIZE 64
#define GOROUTINES 3

/* Where things are in the memory of the fake process. */
enum {
	AT_ALLGLEN = 0x00,
	AT_ALLGPTR = 0x08,
	AT_ALLP = 0x10,
	AT_ALLM = 0x28,
	AT_GOMAXPROCS = 0x30,
	AT_SCHED = 0x100,
	AT_G_POINTERS = 0x200,
	AT_P_POINTERS = 0x300,
	AT_G = 0x1000,
	AT_M = 0x4000,
	AT_P = 0x8000,
	AT_STACK = 0x20000,
	STEP = 0x800,
};

/* A process with three goroutines, two Ms and two Ps, as this minor version lays them out. */
struct world {
	uint8_t bytes[0x10000];
	struct fake_functions functions;
	struct image img;
	struct golayout lay;
	struct target *t;
};

static void set64(struct world *w, size_t at, uint64_t value)
{
	memcpy(w->bytes + at, &value, sizeof(value));
}

static void set32(struct world *w, size_t at, uint32_t value)
{
	memcpy(w->bytes + at, &value, sizeof(value));
}

static size_t g_at(int i)
{
	return AT_G + i * STEP;
}

static size_t m_at(int i)
{
	return AT_M + i * STEP;
}

static void make_goroutine(struct world *w, int i, uint64_t goid, uint32_t status)
{
	const struct golayout_numbers *n = &w->lay.n;
	uint64_t lo = BASE + AT_STACK + (uint64_t)i * 8192;
	size_t g = g_at(i);

	set64(w, g + n->g_stack_lo, lo);
	set64(w, g + n->g_stack_hi, lo + 8192);
	set64(w, g + n->g_sched_g, BASE + g);
	set64(w, g + n->g_sched_sp, lo + 8000);
	set64(w, g + n->g_sched_pc, TEXT + FUNCTION_SIZE + 7);
	set64(w, g + n->g_goid, goid);
	set32(w, g + n->g_status, status);
	set64(w, g + n->g_startpc, goid == 1 ? TEXT : TEXT + FUNCTION_SIZE);
	set64(w, g + n->g_gopc, TEXT + 9);
	set64(w, AT_G_POINTERS + 8 * i, BASE + g);
}

/* An M with its g0 and gsignal, which are numbers 4 to 7. */
static void make_machine(struct world *w, int i)
{
	const struct golayout_numbers *n = &w->lay.n;
	size_t g0 = g_at(3) + 2 * i * 0x200, signal = g0 + 0x200;

	set64(w, m_at(i) + n->m_g0, BASE + g0);
	set64(w, m_at(i) + n->m_gsignal, BASE + signal);
	set64(w, g0 + n->g_m, BASE + m_at(i));
	set64(w, signal + n->g_m, BASE + m_at(i));
	set64(w, m_at(i) + n->m_id, 1 - i);
	set64(w, m_at(i) + n->m_procid, 100 + i);
	set64(w, m_at(i) + n->m_alllink, i ? 0 : BASE + m_at(1));
}

static void make_variables(struct world *w)
{
	const struct golayout_numbers *n = &w->lay.n;

	set64(w, AT_ALLGLEN, GOROUTINES);
	set64(w, AT_ALLGPTR, BASE + AT_G_POINTERS);
	set64(w, AT_ALLP, BASE + AT_P_POINTERS);
	set64(w, AT_ALLP + 8, 2);
	set64(w, AT_ALLM, BASE + m_at(0));
	set32(w, AT_GOMAXPROCS, 2);
	set64(w, AT_SCHED + n->sched_goidgen, 20);
	for (uint32_t i = 0; i < 2; i++) {
		set64(w, AT_P_POINTERS + 8 * i, BASE + AT_P + i * STEP);
		set32(w, AT_P + i * STEP + n->p_id, i);
		set32(w, AT_P + i * STEP + n->p_status, i);
	}
	w->lay.v = (struct golayout_variables){
		.allglen = BASE + AT_ALLGLEN,
		.allgptr = BASE + AT_ALLGPTR,
		.allp = BASE + AT_ALLP,
		.allm = BASE + AT_ALLM,
		.gomaxprocs = BASE + AT_GOMAXPROCS,
		.sched = BASE + AT_SCHED,
		.wait_reason_count = 27,
	};
}

static struct world *world_create(int minor)
{
	static const char *const names[] = {"runtime.main", "main.worker"};
	struct world *w = calloc(1, sizeof(*w));
	char version[32];

	assert_non_null(w);
	w->lay.minor = minor;
	w->lay.n = *golayout_table(minor, 0);
	snprintf(version, sizeof(version), "go1.%d.0", minor);
	w->img.functions = fake_pclntab(&w->functions, names, 2, TEXT, FUNCTION_SIZE);
	w->img.elf = fake_elf(EM_X86_64, NULL, 0, "", 0, 0);
	assert_null(buildinfo_of_version(version, &w->img.info));
	make_variables(w);
	make_goroutine(w, 0, 1, 4);
	make_goroutine(w, 1, 7, 1);
	make_goroutine(w, 2, 18, 0x1000 | 2);
	make_machine(w, 0);
	make_machine(w, 1);
	set64(w, m_at(1) + w->lay.n.m_p, BASE + AT_P + STEP);
	set64(w, m_at(1) + w->lay.n.m_curg, BASE + g_at(2));
	set64(w, g_at(2) + w->lay.n.g_m, BASE + m_at(1));
	assert_null(target_open_memory(&(struct target_range){BASE, sizeof(w->bytes), w->bytes}, 1,
				       &w->t));
	return w;
}

static void world_destroy(struct world **w)
{
	target_close((*w)->t);
	elf_file_close((*w)->img.elf);
	buildinfo_release(&(*w)->img.info);
	free(*w);
}
#define _cleanup_world_ __attribute__((cleanup(world_destroy)))

static void assert_valid(struct world *w)
{
	bool starting = true;
	_cleanup_error_ struct error *err = golayout_validate(&w->lay, &w->img, w->t, &starting);

	if (err)
		fail_msg("%s", err->message);
	assert_false(starting);
}

/* It is refused with a message that names this; `starting` is expected. */
static void assert_invalid(struct world *w, const char *what, bool expect_starting)
{
	bool starting;
	_cleanup_error_ struct error *err = golayout_validate(&w->lay, &w->img, w->t, &starting);

	assert_non_null(err);
	if (!strstr(err->message, what))
		fail_msg("\"%s\" does not say \"%s\"", err->message, what);
	assert_int_equal(starting, expect_starting);
}

static void a_process_of_any_known_version_is_valid(void **state)
{
	for (int minor = GOLAYOUT_MIN_MINOR; minor <= GOLAYOUT_MAX_MINOR; minor++) {
		_cleanup_world_ struct world *w = world_create(minor);

		assert_valid(w);
	}
}

static void the_layout_of_another_version_is_refused(void **state)
{
	static const int pairs[][2] = {{27, 24}, {24, 27}, {22, 23}, {17, 22}, {25, 26}};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		_cleanup_world_ struct world *w = world_create(pairs[i][0]);

		w->lay.n = *golayout_table(pairs[i][1], 0);
		assert_invalid(w, "its memory does not match", false);
	}
}

/* Go 1.24.6 moved the fields behind m.incgo. */
static void the_layout_of_another_patch_release_is_refused(void **state)
{
	_cleanup_world_ struct world *w = world_create(24);

	w->lay.n = *golayout_table(24, 6);
	assert_invalid(w, "the id of the last m by m.alllink should be 0, but is 0x1", false);
	set64(w, m_at(0) + w->lay.n.m_alllink, 0x1234567);
	assert_invalid(w, "m.alllink should be the address of an m, but is 0x1234567", false);
}

static void a_broken_goroutine_is_named(void **state)
{
	_cleanup_world_ struct world *w = world_create(27);
	const struct golayout_numbers *n = &w->lay.n;

	set64(w, g_at(1) + n->g_goid, 21);
	assert_invalid(w, "g.goid should be between 1 and the last one assigned, but is 0x15",
		       false);
	make_goroutine(w, 1, 7, 12);
	assert_invalid(w, "g.atomicstatus", false);
	make_goroutine(w, 1, 7, 1);
	set64(w, g_at(1) + n->g_sched_g, BASE);
	assert_invalid(w, "g.sched.g", false);
	make_goroutine(w, 1, 7, 1);
	set64(w, g_at(1) + n->g_stack_lo, BASE + 1);
	assert_invalid(w, "g.stack.hi - g.stack.lo", false);
	make_goroutine(w, 1, 7, 1);
	set64(w, g_at(1) + n->g_startpc, TEXT + 1);
	assert_invalid(w, "g.startpc should be the start of a function", false);
	make_goroutine(w, 1, 7, 4);
	w->bytes[g_at(1) + n->g_waitreason] = 27;
	assert_invalid(w, "g.waitreason", false);
	w->bytes[g_at(1) + n->g_waitreason] = 26;
	assert_valid(w);
	set64(w, g_at(0) + n->g_startpc, TEXT + FUNCTION_SIZE);
	assert_invalid(w, "g.startpc of goroutine 1 should be runtime.main", false);
}

/* Dead goroutines keep anything in their fields; a thread that C made has no start. */
static void optional_invariants_are_not_checked(void **state)
{
	_cleanup_world_ struct world *w = world_create(27);
	const struct golayout_numbers *n = &w->lay.n;

	make_goroutine(w, 1, 0, 6);
	set64(w, g_at(1) + n->g_stack_lo, 0);
	assert_valid(w);
	make_goroutine(w, 1, 7, 2);
	set64(w, g_at(1) + n->g_startpc, 0);
	set64(w, g_at(1) + n->g_gopc, 0);
	assert_valid(w);
}

static void a_broken_machine_or_processor_is_named(void **state)
{
	_cleanup_world_ struct world *w = world_create(27);
	const struct golayout_numbers *n = &w->lay.n;

	set64(w, m_at(1) + n->m_g0, BASE + g_at(0));
	assert_invalid(w, "m.g0->m", false);
	make_machine(w, 1);
	set64(w, m_at(1) + n->m_curg, BASE + g_at(0));
	assert_invalid(w, "m.curg->m", false);
	set64(w, m_at(1) + n->m_curg, 0);
	set64(w, m_at(1) + n->m_p, BASE + 8);
	assert_invalid(w, "m.p should be 0 or one of runtime.allp", false);
	set64(w, m_at(1) + n->m_p, 0);
	set32(w, AT_P + STEP + n->p_id, 5);
	assert_invalid(w, "p.id should be its place in runtime.allp, but is 0x5", false);
	set32(w, AT_GOMAXPROCS, 3);
	assert_invalid(w, "runtime.gomaxprocs", false);
}

static void a_starting_program_is_distinguished(void **state)
{
	_cleanup_world_ struct world *w = world_create(27);

	set64(w, AT_ALLGLEN, 0);
	assert_invalid(w, "the number of goroutines", true);
	set64(w, AT_ALLGLEN, GOROUTINES);
	set64(w, AT_ALLP, 0);
	assert_invalid(w, "runtime.gomaxprocs", true);
	set64(w, AT_ALLP, BASE + AT_P_POINTERS);
	w->lay.v.allglen = 0x1000;
	assert_invalid(w, error_fault.message, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_of_any_known_version_is_valid),
		cmocka_unit_test(the_layout_of_another_version_is_refused),
		cmocka_unit_test(the_layout_of_another_patch_release_is_refused),
		cmocka_unit_test(a_broken_goroutine_is_named),
		cmocka_unit_test(optional_invariants_are_not_checked),
		cmocka_unit_test(a_broken_machine_or_processor_is_named),
		cmocka_unit_test(a_starting_program_is_distinguished),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
