#include "profile/source_fragments.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

bool source_fragments_add(struct source_fragments *f, const char *file, uint32_t first,
			  uint32_t count, char *text, size_t size)
{
	char *name = strdup(file);

	if (!name || !array_reserve(&f->items, &f->capacity, f->count + 1)) {
		free(name);
		free(text);
		return false;
	}
	f->items[f->count++] = (struct source_fragment){name, first, count, text, size};
	f->bytes += size;
	return true;
}

void source_fragments_release(struct source_fragments *f)
{
	for (size_t i = 0; i < f->count; i++) {
		free(f->items[i].file);
		free(f->items[i].text);
	}
	free(f->items);
	*f = (struct source_fragments){0};
}
