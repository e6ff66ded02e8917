#include "gotrace/used.h"

#include <stdlib.h>

#include "base/array.h"

uint32_t used_add(struct used *used, uint64_t generation, uint32_t number, uint32_t *ids)
{
	if (!array_reserve(&used->uses, &used->use_capacity, (size_t)number + 1) ||
	    !array_reserve(&used->numbers, &used->capacity, used->count + 1))
		return 0;
	used->uses[number] = (struct use){generation, ++*ids};
	used->numbers[used->count++] = number;
	return *ids;
}

void used_release(struct used *used)
{
	free(used->uses);
	free(used->numbers);
	*used = (struct used){0};
}
