#include "gotrace/used.h"

#include <stdlib.h>

#include "base/array.h"

uint32_t used_add(struct used *used, uint32_t number, uint32_t *ids)
{
	if (!array_reserve(&used->ids, &used->id_capacity, (size_t)number + 1) ||
	    !array_reserve(&used->numbers, &used->capacity, used->count + 1))
		return 0;
	used->ids[number] = ++*ids;
	used->numbers[used->count++] = number;
	return *ids;
}

void used_clear(struct used *used)
{
	for (size_t i = 0; i < used->count; i++)
		used->ids[used->numbers[i]] = 0;
	used->count = 0;
}

void used_release(struct used *used)
{
	free(used->ids);
	free(used->numbers);
	*used = (struct used){0};
}
