/*
 * Calls in the code of a Go function, and the closures that they pass. amd64 alone.
 */
#ifndef IMAGE_CLOSURE_CALLS_H
#define IMAGE_CLOSURE_CALLS_H

#include "image/image.h"

struct closure_call {
	uint64_t return_address;
	/* The function of the closure that the code named last before the call, by its code or by a
	 * constant closure of it; 0: none, or not visible in the file. */
	uint64_t closure;
};

/* The direct calls of `callee`, an address, in the function that begins at `caller`: the first
 * `max`, by address. Returns how many there are; 0 also when the code cannot be read. */
size_t closure_calls_find(const struct image *img, uint64_t caller, uint64_t callee,
			  struct closure_call *ret, size_t max);

/* The target of the direct call before this return address; 0: none. */
uint64_t call_target(const struct image *img, uint64_t return_address);

#endif
