#include "base/array.h"

#include <stdlib.h>
#include <string.h>

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
	/* What nobody touches of a large array takes no memory: calloc() does not write to it. */
	grown = *items ? realloc(*items, bytes) : calloc(1, bytes);
	if (!grown)
		return false;
	if (*items)
		memset((char *)grown + *capacity * item_size, 0, (room - *capacity) * item_size);
	*items = grown;
	*capacity = room;
	return true;
}
