/* Memory that the library hands out with an object lives in an arena of that object (base/arena.h).
 */
#ifndef LIB_GIVEN_H
#define LIB_GIVEN_H

#include <stddef.h>

#include "base/arena.h"

#define GIVEN_ALIGNMENT _Alignof(max_align_t)

/* Takes `size` bytes, aligned and zeroed; NULL: no memory. Everything in that arena is taken by
 * this function. */
static inline void *given_take(struct arena *arena, size_t size)
{
	return arena_take(arena, (size + GIVEN_ALIGNMENT - 1) / GIVEN_ALIGNMENT * GIVEN_ALIGNMENT);
}

#endif
