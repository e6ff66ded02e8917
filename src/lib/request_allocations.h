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
/* Adds to the sample with the same stack and labels, or creates it. `rest`: what rounding left out
 * of objects and bytes so far, at first 0; so the sums stay right. */
struct error *allocations_profile_add(struct profile *p, struct profile_sample *sample,
				      const struct allocation_sum *sum, double rest[2]) must_check;

#endif
