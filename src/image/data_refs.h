/*
 * The addresses of data that a function's code refers to, in order: how runtime variables are found
 * in a binary without symbols. amd64: operands relative to the pc; arm64: adrp pairs.
 */
#ifndef IMAGE_DATA_REFS_H
#define IMAGE_DATA_REFS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"

struct data_refs {
	uint64_t *items; /* addresses in the target, in the order of the code */
	size_t count;
	size_t capacity;
};

/* For the function of this name in the function table; ERROR_FAILED when there is none. */
struct error *data_refs_of(const struct image *img, const char *function,
			   struct data_refs *ret) must_check;
void data_refs_release(struct data_refs *refs);
#define _cleanup_data_refs_ __attribute__((cleanup(data_refs_release)))

#endif
