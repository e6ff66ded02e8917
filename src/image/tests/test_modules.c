/* A process whose mappings change all the time. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "image/modules.h"
#include "target/ops.h"

enum { MAPS_AT_ONCE = 1000, MAP_BYTES = 4096 };

/* Which code is mapped changes with each look. */
struct changing {
	struct target base;
	uint64_t looks;
};

static struct error *changing_maps(struct target *t, struct target_maps *ret)
{
	struct changing *c = (struct changing *)t;
	struct target_maps maps = {0};

	assert_true(array_reserve(&maps.items, &maps.capacity, MAPS_AT_ONCE));
	for (uint64_t i = 0; i < MAPS_AT_ONCE; i++) {
		uint64_t start = (1 + c->looks * MAPS_AT_ONCE + i) * MAP_BYTES;

		maps.items[i] = (struct target_map){.start = start,
						    .end = start + MAP_BYTES,
						    .executable = true,
						    .path = strdup("/lib/made-up.so")};
	}
	maps.count = MAPS_AT_ONCE;
	c->looks++;
	*ret = maps;
	return NULL;
}

static struct error *changing_check(struct target *t)
{
	return NULL;
}

static void mappings_past_the_limit_are_counted(void **state)
{
	static const struct target_ops ops = {.maps = changing_maps, .check = changing_check};
	struct changing target = {.base = {.ops = &ops}};
	_cleanup_modules_ struct modules *m = NULL;
	uint64_t looks = MODULES_MOST / MAPS_AT_ONCE + 1;

	assert_null(modules_open(&target.base, MACHINE_AMD64, &m));
	while (target.looks < looks) {
		assert_int_equal(modules_left_out(m), 0);
		modules_stale(m);
		assert_false(modules_have(m, 1));
	}
	assert_int_equal(modules_left_out(m), looks * MAPS_AT_ONCE - MODULES_MOST);
	assert_true(modules_have(m, MAP_BYTES));
	assert_int_equal(modules_left_out(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mappings_past_the_limit_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
