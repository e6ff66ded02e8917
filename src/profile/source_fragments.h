/* Lines of source that a page shows beside a profile. */
#ifndef PROFILE_SOURCE_FRAGMENTS_H
#define PROFILE_SOURCE_FRAGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Consecutive lines of a file. */
struct source_fragment {
	char *file;     /* as the profile names it */
	uint32_t first; /* the number of its first line */
	uint32_t count;
	char *text; /* lines, each ended by a newline; any bytes */
	size_t size;
};

struct source_fragments {
	struct source_fragment *items;
	size_t count;
	size_t capacity;
	size_t bytes; /* of all texts */
};

/* Takes ownership of `text`, also on failure. False: no memory. */
bool source_fragments_add(struct source_fragments *f, const char *file, uint32_t first,
			  uint32_t count, char *text, size_t size);
void source_fragments_release(struct source_fragments *f);

#endif
