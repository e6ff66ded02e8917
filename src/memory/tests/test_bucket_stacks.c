#include <math.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "memory/bucket_stacks.h"
#include "tests/made_functions.h"

static const struct made_function functions[] = {
	{"runtime.mallocgc", NULL, 16, 0, 0},
	{"internal/runtime/maps.grow", NULL, 16, 0, 0},
	{"main.make", "main.inlined", 16, 0, 0},
	{"main.main", NULL, 48, 0, 0},
};

static struct made_functions made;

static int set_up(void **state)
{
	made_functions_init(&made, PCLNTAB_GO120, functions, ARRAY_SIZE(functions));
	return 0;
}

static int tear_down(void **state)
{
	made_functions_release(&made);
	return 0;
}

static size_t words_of(const uint64_t *pcs, size_t depth, bool hides, int minor, uint64_t *ret)
{
	return bucket_stack_words(&made.tab, pcs, depth, hides, minor, ret);
}

static void functions_of_the_runtime_are_hidden_at_the_inner_end(void **state)
{
	const uint64_t pcs[] = {made_pc(0, false), made_pc(1, false), made_pc(3, false),
				made_pc(0, false)};
	uint64_t words[4];

	assert_int_equal(words_of(pcs, 4, true, 27, words), 2);
	assert_int_equal(words[0], pcs[2]);
	assert_int_equal(words[1], pcs[3]);
	/* Up to Go 1.23 these packages are not taken for the runtime's. */
	assert_int_equal(words_of(pcs, 4, true, 23, words), 3);
	assert_int_equal(words_of(pcs, 4, false, 27, words), 4);
	assert_int_equal(words_of(pcs, 2, true, 27, words), 2);
}

static void an_inlined_call_has_one_word(void **state)
{
	uint64_t inner = made_pc(2, true), outer = pclntab_inlined_at(&made.tab, inner) + 1;
	const uint64_t pcs[] = {inner, outer, made_pc(3, false)};
	const uint64_t recursive[] = {inner, made_pc(2, false), made_pc(3, false)};
	uint64_t words[3];

	assert_int_not_equal(outer, 1);
	assert_int_equal(words_of(pcs, 3, true, 27, words), 2);
	assert_int_equal(words[0], inner);
	assert_int_equal(words[1], pcs[2]);
	/* A call of the same function by itself is none that was inlined. */
	assert_int_equal(words_of(recursive, 3, true, 27, words),
			 made_pc(2, false) == outer ? 2 : 3);
}

static void nonsense_is_unknown(void **state)
{
	const uint64_t pcs[] = {0, 5, 1ull << 63, UINT64_MAX, 0x1234};
	uint64_t words[5];

	assert_int_equal(words_of(pcs, 5, true, 27, words), 5);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(words[i], STACK_PC_UNKNOWN);
	assert_int_equal(words[4], 0x1234);
}

/* By the formula of scaleHeapSample, computed elsewhere. */
static void samples_are_scaled(void **state)
{
	int64_t objects, bytes;

	bucket_unsample(1, 1024, 524288, &objects, &bytes);
	assert_int_equal(objects, 512);
	assert_int_equal(bytes, 524800);
	bucket_unsample(3, 3 * 1048576, 524288, &objects, &bytes);
	assert_int_equal(objects, 3);
	assert_int_equal(bytes, 3638089);
	bucket_unsample(7, 112, 1, &objects, &bytes);
	assert_int_equal(objects, 7);
	assert_int_equal(bytes, 112);
	bucket_unsample(0, 0, 524288, &objects, &bytes);
	assert_int_equal(objects, 0);
	bucket_unsample(INT64_MAX, INT64_MAX, 524288, &objects, &bytes);
	assert_int_equal(bytes, INT64_MAX);
	bucket_unsample(-5, -80, 524288, &objects, &bytes);
	assert_true(objects < 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(functions_of_the_runtime_are_hidden_at_the_inner_end),
		TEST(an_inlined_call_has_one_word),
		TEST(nonsense_is_unknown),
		TEST(samples_are_scaled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
