#include "base/array.h"

#include <stdlib.h>
#include <string.h>

/* From this size on, malloc() maps an array separately. */
#define LARGE_BYTES (256u << 10)

/* Untouched pages of a large array take no memory, because calloc() does not write to them.
 * Otherwise an array that grows by half would take that half at once. */
static void *grow_large(void *items, size_t size, size_t bytes)
{
	void *grown = calloc(1, bytes);

	if (!grown)
		return NULL;
	memcpy(grown, items, size);
	free(items);
	return grown;
}

bool array_grow_bytes(void **items, size_t *capacity, size_t want, size_t item_size)
{
	size_t room, bytes;
	void *grown;

	room = *capacity + *capacity / 2;
	if (room < want)
		room = want;
	if (room < 8)
		room = 8;
	if (__builtin_mul_overflow(room, item_size, &bytes))
		return false;
	if (*items && bytes >= LARGE_BYTES)
		grown = grow_large(*items, *capacity * item_size, bytes);
	else
		grown = *items ? realloc(*items, bytes) : calloc(1, bytes);
	if (!grown)
		return false;
	if (*items && bytes < LARGE_BYTES)
		memset((char *)grown + *capacity * item_size, 0, (room - *capacity) * item_size);
	*items = grown;
	*capacity = room;
	return true;
}
