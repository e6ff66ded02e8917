#include "requests/allocations.h"

#include <math.h>
#include <stdlib.h>

#include "base/array.h"

/* The 97.5 % quantile of the normal distribution. */
#define Z 1.959964

void allocation_sum_add(struct allocation_sum *sum, uint64_t size, uint64_t rate)
{
	double p = rate > 1 ? -expm1(-(double)size / (double)rate) : 1;
	double missed = (1 - p) / (p * p);

	sum->samples++;
	sum->objects += 1 / p;
	sum->bytes += (double)size / p;
	sum->objects_variance += missed;
	sum->bytes_variance += missed * (double)size * (double)size;
}

void allocation_sum_join(struct allocation_sum *sum, const struct allocation_sum *other)
{
	sum->samples += other->samples;
	sum->objects += other->objects;
	sum->bytes += other->bytes;
	sum->objects_variance += other->objects_variance;
	sum->bytes_variance += other->bytes_variance;
}

/* Byar's approximation to the upper limit of the mean of a Poisson variable that was n. */
static double upper_limit(double n)
{
	double m = n + 1, root = 1 - 1 / (9 * m) + Z / (3 * sqrt(m));

	return m * root * root * root;
}

/* As if each of some events had added the same to the estimate: exact where objects are small
 * against the rate, and the normal approximation where there are many samples. */
double allocation_error(double estimate, double variance, double none)
{
	double unit;

	if (!(estimate > 0))
		return none;
	if (!(variance > 0))
		return 0;
	unit = variance / estimate;
	return unit * (upper_limit(estimate / unit) - estimate / unit);
}

double allocation_error_of_bytes(const struct allocation_sum *sum, uint64_t rate)
{
	double none = rate > 1 ? (double)rate * upper_limit(0) : 0;

	return allocation_error(sum->bytes, sum->bytes_variance, none);
}

/* NULL: no memory. */
static struct allocation_sum *sum_of(struct allocations *a, uint32_t stack)
{
	uint64_t *place = map_at(&a->index, stack);

	if (!place)
		return NULL;
	if (!*place) {
		if (!array_reserve(&a->stacks, &a->capacity, a->count + 1))
			return NULL;
		a->stacks[a->count++] = (struct allocation_stack){.stack = stack};
		*place = a->count;
	}
	return &a->stacks[*place - 1].sum;
}

bool allocations_add(struct allocations *a, uint32_t stack, uint64_t size, uint64_t rate)
{
	struct allocation_sum *sum = sum_of(a, stack);

	if (!sum)
		return false;
	allocation_sum_add(&a->sum, size, rate);
	allocation_sum_add(sum, size, rate);
	return true;
}

bool allocations_join(struct allocations *a, const struct allocations *other)
{
	allocation_sum_join(&a->sum, &other->sum);
	for (size_t i = 0; i < other->count; i++) {
		struct allocation_sum *sum = sum_of(a, other->stacks[i].stack);

		if (!sum)
			return false;
		allocation_sum_join(sum, &other->stacks[i].sum);
	}
	return true;
}

static int by_bytes(const void *a, const void *b)
{
	const struct allocation_stack *x = a, *y = b;

	if (x->sum.bytes != y->sum.bytes)
		return x->sum.bytes < y->sum.bytes ? 1 : -1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

void allocations_complete(struct allocations *a)
{
	map_release(&a->index);
	if (a->count)
		qsort(a->stacks, a->count, sizeof(*a->stacks), by_bytes);
}

void allocations_release(struct allocations *a)
{
	free(a->stacks);
	map_release(&a->index);
}
