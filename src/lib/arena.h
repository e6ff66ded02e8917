/* Memory that is released all at once: what the library hands out with an object. */
#ifndef LIB_ARENA_H
#define LIB_ARENA_H

#include <stddef.h>

struct arena {
	struct arena_chunk *chunks; /* the newest first */
};

/* Zeroed, aligned for anything; NULL: no memory. */
void *arena_take(struct arena *arena, size_t size);
void arena_release(struct arena *arena);

#endif
