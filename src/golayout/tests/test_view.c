#include "golayout/view.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/unit_test.h"

#define FAR 4000

static const struct named {
	const char *type;
	const char *path;
	size_t number;
} fields[] = {
#define FIELD(name, go_type, go_path) {go_type, go_path, offsetof(struct golayout_numbers, name)},
#define CONSTANT(name, go_name)
#include "golayout/fields.def"
#undef FIELD
#undef CONSTANT
};

/* Go 1.27, with one field far behind the others. */
static struct golayout_numbers with_far(const struct named *f)
{
	struct golayout_numbers n = *golayout_table(27, 0);
	int32_t far = FAR;

	memcpy((char *)&n + f->number, &far, sizeof(far));
	return n;
}

static void enough_is_read_for_every_field(void **state)
{
	size_t gs = 0, ms = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		struct golayout_numbers n = with_far(&fields[i]);

		if (!*fields[i].path)
			continue;
		if (!strcmp(fields[i].type, "runtime.g") && ++gs)
			assert_int_equal(golayout_g_bytes(&n), FAR + 8);
		if (!strcmp(fields[i].type, "runtime.m") && ++ms)
			assert_int_equal(golayout_m_bytes(&n), FAR + 8);
	}
	assert_true(gs > 20 && ms > 10);
}

static void known_releases_are_far_below_the_limits(void **state)
{
	for (int minor = GOLAYOUT_MIN_MINOR; minor <= GOLAYOUT_MAX_MINOR; minor++) {
		const struct golayout_numbers *n = golayout_table(minor, 99);

		assert_in_range(golayout_g_bytes(n), 300, n->g_size);
		assert_in_range(golayout_m_bytes(n), 700, n->m_size);
		assert_true(n->g_size < GOLAYOUT_G_LIMIT / 2);
		assert_true(n->m_size < GOLAYOUT_M_LIMIT / 2);
		assert_in_range(golayout_span_bytes(n), 100, GOLAYOUT_SPAN_LIMIT / 2);
		assert_true(n->heap_mcache_bytes < GOLAYOUT_HEAP_LIMIT / 2);
		assert_true(n->arena_size < GOLAYOUT_ARENA_LIMIT / 2);
	}
}

/* With ASan, a byte too many ends the test. */
static void a_field_at_the_very_end_is_read_from_what_was_read(void **state)
{
	struct golayout_numbers n = *golayout_table(27, 0);
	uint8_t *bytes;
	struct g_view g;

	n.g_goid = FAR;
	bytes = malloc(golayout_g_bytes(&n));
	assert_non_null(bytes);
	memset(bytes, 7, golayout_g_bytes(&n));
	g = (struct g_view){&n, bytes};
	assert_int_equal(g_view_goid(g), 0x0707070707070707);
	assert_int_equal(g_view_waitreason(g), 7);
	assert_int_equal(g_view_status(g), 0x07070707);
	free(bytes);
}

static void a_field_that_the_version_lacks_is_0(void **state)
{
	const struct golayout_numbers *n = golayout_table(27, 0);
	uint8_t bytes[GOLAYOUT_G_LIMIT];

	memset(bytes, 7, sizeof(bytes));
	assert_int_equal(n->g_sync_group, GOLAYOUT_ABSENT);
	assert_int_equal(g_view_sync_group((struct g_view){n, bytes}), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(enough_is_read_for_every_field),
		cmocka_unit_test(known_releases_are_far_below_the_limits),
		cmocka_unit_test(a_field_at_the_very_end_is_read_from_what_was_read),
		cmocka_unit_test(a_field_that_the_version_lacks_is_0),
	};

	return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
