/*
 * A growing array is three members: items, count and capacity. array_reserve() makes room for
 * `want` items in all, zeroing the new room, and is false when there is no memory (the array is as
 * it was).
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#define array_reserve(items, capacity, want) \
	array_reserve_bytes((void **)(items), (capacity), (want), sizeof(**(items)))

bool array_grow_bytes(void **items, size_t *capacity, size_t want, size_t item_size)
	__attribute__((warn_unused_result));

/* Mostly there is room: that costs a comparison and no call. */
__attribute__((warn_unused_result)) static inline bool
array_reserve_bytes(void **items, size_t *capacity, size_t want, size_t item_size)
{
	return want <= *capacity || array_grow_bytes(items, capacity, want, item_size);
}

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
