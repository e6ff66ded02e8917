/* What was allocated for requests (requests/allocations.h), as the library hands it out. */
#ifndef LIB_REQUEST_ALLOCATIONS_H
#define LIB_REQUEST_ALLOCATIONS_H

#include "base/arena.h"
#include "lib/requests_handle.h"
#include "profile/profile.h"

/* Without stacks. `rate`: of the trace; 0: not known. */
struct gospect_allocations allocations_estimate(const struct allocation_sum *sum, uint64_t rate);

/* Fills in `allocated`, where allocations were asked for. False: no memory. */
bool give_allocations(const struct gospect_requests *r, const struct traced_request *from,
		      struct arena *arena, struct gospect_request *ret);

/* The types of values of a profile of allocations: objects, then bytes. */
struct error *allocations_profile_begin(struct profile *p, uint64_t rate) must_check;
/* What rounding left out of objects and bytes, of each sample of a profile. */
struct allocation_rests {
	struct allocation_rest {
		double objects, bytes;
	} * items;
	size_t capacity;
};

/* Adds to the sample with the same stack and labels, or creates it. With `rests`, at first empty,
 * each sample is right when all is added. */
struct error *allocations_profile_add(struct profile *p, struct profile_sample *sample,
				      const struct allocation_sum *sum,
				      struct allocation_rests *rests) must_check;

#endif
