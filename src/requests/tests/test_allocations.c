/* Estimates from samples that are drawn as the runtime draws them, against what is known. */
#include "requests/allocations.h"

#include <math.h>
#include <stdlib.h>

#include "base/unit_test.h"

enum { RATE = 524288, PROGRAMS = 2000 };

struct amount {
	uint64_t size;
	uint64_t objects;
};

static uint64_t random_state = 1;

/* From 0 to 1. */
static double draw(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(random_state >> 11) * 0x1p-53;
}

/* runtime.nextSample(): the distance between two samples is exponentially distributed. */
static double next_sample(void)
{
	return -log(1 - draw()) * RATE;
}

/* The distance starts anew at each sample. */
static void allocate(struct allocations *a, const struct amount *amounts, size_t count)
{
	double left = next_sample();

	for (size_t i = 0; i < count; i++)
		for (uint64_t k = 0; k < amounts[i].objects; k++) {
			left -= (double)amounts[i].size;
			if (left >= 0)
				continue;
			left = next_sample();
			assert_true(allocations_add(a, i + 1, amounts[i].size, RATE));
		}
}

/* Of all programs so many are within the error; their average is right. */
static void check(const struct amount *amounts, size_t count)
{
	double bytes = 0, objects = 0, sum = 0;
	unsigned int bytes_right = 0, objects_right = 0;

	for (size_t i = 0; i < count; i++) {
		bytes += (double)(amounts[i].size * amounts[i].objects);
		objects += (double)amounts[i].objects;
	}
	for (unsigned int i = 0; i < PROGRAMS; i++) {
		struct allocations a = {0};
		double error;

		allocate(&a, amounts, count);
		sum += a.sum.bytes;
		error = allocation_error_of_bytes(&a.sum, RATE);
		bytes_right += fabs(a.sum.bytes - bytes) <= error;
		error = allocation_error(a.sum.objects, a.sum.objects_variance, objects);
		objects_right += fabs(a.sum.objects - objects) <= error;
		allocations_release(&a);
	}
	assert_true(fabs(sum / PROGRAMS / bytes - 1) < 0.05);
	assert_true(bytes_right >= PROGRAMS * 0.94);
	assert_true(objects_right >= PROGRAMS * 0.90);
}

static void estimates_are_right_within_the_error_that_is_said(void **state)
{
	check((struct amount[]){{512, 50000}}, 1);
	check((struct amount[]){{65536, 500}}, 1);
	check((struct amount[]){{1 << 20, 100}}, 1);
	check((struct amount[]){{1024, 1000}}, 1); /* two samples on average */
	check((struct amount[]){{128, 1000}}, 1);  /* mostly none */
	check((struct amount[]){{1024, 2000}, {65536, 100}, {4 << 20, 5}}, 3);
}

static void with_a_rate_of_one_all_is_exact(void **state)
{
	struct allocations a = {0};

	for (uint64_t size = 1; size <= 100; size++)
		assert_true(allocations_add(&a, size % 2, size, 1));
	assert_int_equal(a.sum.bytes, 5050);
	assert_int_equal(a.sum.objects, 100);
	assert_int_equal(allocation_error_of_bytes(&a.sum, 1), 0);
	allocations_complete(&a);
	assert_int_equal(a.count, 2);
	assert_int_equal(a.stacks[0].stack, 0);
	assert_int_equal(a.stacks[0].sum.bytes, 2550);
	assert_int_equal(a.stacks[1].sum.objects, 50);
	allocations_release(&a);
}

static void two_that_are_joined_are_as_one(void **state)
{
	struct allocations a = {0}, b = {0}, both = {0};

	for (uint32_t stack = 0; stack < 20; stack++) {
		assert_true(allocations_add(stack % 3 ? &a : &b, stack % 5, 1000 + stack, RATE));
		assert_true(allocations_add(&both, stack % 5, 1000 + stack, RATE));
	}
	assert_true(allocations_join(&a, &b));
	assert_int_equal(a.sum.samples, 20);
	assert_int_equal(a.count, both.count);
	assert_true(fabs(a.sum.bytes - both.sum.bytes) < 1);
	assert_true(fabs(a.sum.bytes_variance / both.sum.bytes_variance - 1) < 1e-9);
	allocations_release(&a);
	allocations_release(&b);
	allocations_release(&both);
}

static void numbers_of_a_hostile_trace_stay_numbers(void **state)
{
	struct allocations a = {0};

	assert_true(allocations_add(&a, 1, 1, UINT64_MAX));
	assert_true(allocations_add(&a, 1, UINT64_MAX, 1));
	assert_true(allocations_add(&a, 1, UINT64_MAX, UINT64_MAX));
	assert_true(isfinite(a.sum.bytes) && isfinite(a.sum.bytes_variance));
	assert_true(isfinite(allocation_error_of_bytes(&a.sum, UINT64_MAX)));
	allocations_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(estimates_are_right_within_the_error_that_is_said),
		cmocka_unit_test(with_a_rate_of_one_all_is_exact),
		cmocka_unit_test(two_that_are_joined_are_as_one),
		cmocka_unit_test(numbers_of_a_hostile_trace_stay_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
