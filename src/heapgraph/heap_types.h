/*
 * Where the pointers of a type are: runtime types (internal/abi.Type), read once each. Their memory
 * is the target's, so each number in it is bounded.
 */
#ifndef HEAPGRAPH_HEAP_TYPES_H
#define HEAPGRAPH_HEAP_TYPES_H

#include "base/arena.h"
#include "base/map.h"
#include "image/image.h"

struct heap_type {
	uint64_t address;
	uint64_t size;
	uint64_t pointer_bytes; /* the first bytes, which hold all pointers */
	/* A bit for each word of them; NULL: it is not known, any word may be a pointer. */
	const uint8_t *mask;
};

struct heap_types {
	struct target *t;
	int minor;
	struct map by_address; /* -> struct heap_type * */
	struct arena memory;
	uint64_t mask_bytes;
};

/* *ret is NULL when no type is there. */
struct error *heap_types_get(struct heap_types *types, uint64_t address,
			     const struct heap_type **ret) must_check;
void heap_types_release(struct heap_types *types);

static inline bool heap_type_points(const struct heap_type *type, uint64_t word)
{
	return !type->mask || type->mask[word / 8] >> word % 8 & 1;
}

#endif
