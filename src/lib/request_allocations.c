#include "lib/request_allocations.h"

#include <math.h>

#include "base/array.h"
#include "lib/give_wakers.h"

static uint64_t whole(double value)
{
	return value >= 0x1p63 ? INT64_MAX : (uint64_t)(value + 0.5);
}

struct gospect_allocations allocations_estimate(const struct allocation_sum *sum, uint64_t rate)
{
	return (struct gospect_allocations){
		.bytes = whole(sum->bytes),
		.objects = whole(sum->objects),
		.bytes_error = whole(allocation_error_of_bytes(sum, rate)),
		.objects_error = whole(allocation_error(sum->objects, sum->objects_variance, 0)),
		.samples = sum->samples,
	};
}

static bool give_stacks(const struct gospect_requests *r, const struct allocations *from,
			struct giving_wakers *giving, struct gospect_allocations *ret)
{
	size_t count = from->count;
	struct gospect_allocation_stack *stacks =
		given_take(giving->arena, (count + 1) * sizeof(*stacks));
	const struct gospect_allocation_stack **pointers =
		given_take(giving->arena, (count + 1) * sizeof(*pointers));
	bool given = stacks && pointers;

	for (size_t i = 0; given && i < count; i++) {
		struct gospect_allocations sum =
			allocations_estimate(&from->stacks[i].sum, r->alloc_rate);

		stacks[i] = (struct gospect_allocation_stack){
			.bytes = sum.bytes,
			.objects = sum.objects,
			.bytes_error = sum.bytes_error,
			.objects_error = sum.objects_error,
			.samples = sum.samples,
			.stack = give_stack(giving, from->stacks[i].stack),
		};
		pointers[i] = &stacks[i];
		given = stacks[i].stack;
	}
	ret->stack_count = count;
	ret->stacks = pointers;
	return given;
}

bool give_allocations(const struct gospect_requests *r, const struct traced_request *from,
		      struct arena *arena, struct gospect_request *ret)
{
	struct giving_wakers giving = {arena, &r->tables, {0}};
	struct gospect_allocations *given;
	bool ok;

	if (!r->has_allocations)
		return true;
	given = given_take(arena, sizeof(*given));
	if (!given)
		return false;
	*given = allocations_estimate(&from->allocations.sum, r->alloc_rate);
	ok = give_stacks(r, &from->allocations, &giving, given);
	map_release(&giving.stacks);
	ret->allocated = given;
	return ok;
}

void gospect_requests_allocated(const struct gospect_requests *r, struct gospect_allocations *ret)
{
	*ret = allocations_estimate(&r->allocated, r->alloc_rate);
}

struct error *allocations_profile_begin(struct profile *p, uint64_t rate)
{
	struct error *err = profile_add_type(p, "alloc_objects", "count");

	if (!err)
		err = profile_add_type(p, "alloc_space", "bytes");
	p->unit = PROFILE_BYTES;
	p->preferred = intern_string(&p->strings, "alloc_space");
	p->period_type.type = intern_string(&p->strings, "space");
	p->period_type.unit = intern_string(&p->strings, "bytes");
	p->period_ns = rate;
	return err;
}

/* Whole numbers whose sum is that of the values, however many there are: *rest is what they lack.
 */
static int64_t rounded(double value, double *rest)
{
	int64_t number = value < 0x1p62 ? llround(value + *rest) : INT64_MAX;

	*rest = value < 0x1p62 ? *rest + value - (double)number : 0;
	return number;
}

static void add_to(int64_t *value, int64_t more)
{
	if (__builtin_add_overflow(*value, more, value))
		*value = INT64_MAX;
}

struct error *allocations_profile_add(struct profile *p, struct profile_sample *sample,
				      const struct allocation_sum *sum,
				      struct allocation_rests *rests)
{
	size_t before = p->count;
	struct allocation_rest *rest;
	uint32_t place;
	struct error *err;

	/* Empty at first: which sample it is decides what rounding has left out so far. */
	sample->count = 0;
	sample->wall_ns = 0;
	err = profile_add_at(p, sample, &place);
	if (err)
		return err;
	if (!array_reserve(&p->values, &p->value_capacity, p->count) ||
	    !array_reserve(&rests->items, &rests->capacity, p->count))
		return &error_no_memory;
	if (p->count > before)
		p->values[place] = (struct profile_values){0};
	rest = &rests->items[place];
	sample->count = rounded(sum->objects, &rest->objects);
	sample->wall_ns = rounded(sum->bytes, &rest->bytes);
	add_to(&p->values[place].values[0], sample->count);
	add_to(&p->values[place].values[1], sample->wall_ns);
	return profile_add_at(p, sample, &place);
}
