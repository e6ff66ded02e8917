/* Which goroutines there are, of a runtime that says so, and of one that lies. */
#include <stdlib.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "collect/living.h"
#include "golayout/status.h"
#include "tests/made_runtime.h"

#define SLICE_NS 1000000000ull

static int init(void **state)
{
	struct made_runtime *r = calloc(1, sizeof(*r));

	made_runtime_init(r, 27, 300); /* more than are read at once */
	*state = r;
	return 0;
}

static int release(void **state)
{
	made_runtime_release(*state);
	free(*state);
	return 0;
}

static struct error *read_all(struct made_runtime *r, struct living *l)
{
	return living_read(l, &r->base, &r->lay, SLICE_NS);
}

static void assert_refused(struct error *err)
{
	assert_non_null(err);
	assert_int_equal(err->code, ERROR_CORRUPT);
	error_destroy(err);
}

static void those_that_have_not_ended_are_found(void **state)
{
	struct made_runtime *r = *state;
	struct living l = {0};

	for (size_t i = 0; i < 300; i++)
		made_set_u64(r, i, r->lay.n.g_goid, 1000 + i);
	made_set_status(r, 7, G_DEAD);
	made_set_status(r, 290, G_IDLE);
	assert_null(read_all(r, &l));
	assert_true(l.complete);
	assert_int_equal(l.goids.count, 298);
	assert_null(map_find(&l.goids, 1007));
	assert_null(map_find(&l.goids, 1290));
	assert_non_null(map_find(&l.goids, 1000));
	assert_non_null(map_find(&l.goids, 1299));
	living_release(&l);
}

/* An older gospect read 2^25 of them, and kept those for as long as the trace took. */
static void a_length_that_no_memory_holds_is_refused(void **state)
{
	static const uint64_t lengths[] = {(1ull << 25) + 1, 1ull << 40, UINT64_MAX};
	struct made_runtime *r = *state;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct living l = {0};
		size_t reads = r->reads;

		r->all_length = lengths[i];
		assert_refused(read_all(r, &l));
		assert_false(l.complete);
		assert_in_range(r->reads - reads, 1, 3);
		living_release(&l);
	}
}

/* It is long enough to be checked when it has grown, too. */
static void a_length_that_grows_is_checked_again(void **state)
{
	struct made_runtime *r = *state;
	struct living l = {0};

	assert_null(living_read(&l, &r->base, &r->lay, 0));
	assert_null(read_all(r, &l));
	l.complete = false;
	r->all_length = 1ull << 30;
	assert_refused(read_all(r, &l));
	living_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(those_that_have_not_ended_are_found, init, release),
		cmocka_unit_test_setup_teardown(a_length_that_no_memory_holds_is_refused, init,
						release),
		cmocka_unit_test_setup_teardown(a_length_that_grows_is_checked_again, init,
						release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
