#include "lib/arena.h"

#include <stdlib.h>

#define CHUNK_BYTES (64u << 10)
#define ALIGNMENT _Alignof(max_align_t)

struct arena_chunk {
	struct arena_chunk *next;
	size_t used;
	size_t size;
	_Alignas(max_align_t) char bytes[];
};

static struct arena_chunk *add_chunk(struct arena *arena, size_t size)
{
	size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
	struct arena_chunk *chunk = calloc(1, sizeof(*chunk) + room);

	if (!chunk)
		return NULL;
	chunk->size = room;
	chunk->next = arena->chunks;
	arena->chunks = chunk;
	return chunk;
}

void *arena_take(struct arena *arena, size_t size)
{
	struct arena_chunk *chunk = arena->chunks;
	void *bytes;

	size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if (!chunk || size > chunk->size - chunk->used)
		chunk = add_chunk(arena, size);
	if (!chunk)
		return NULL;
	bytes = chunk->bytes + chunk->used;
	chunk->used += size;
	return bytes;
}

void arena_release(struct arena *arena)
{
	while (arena->chunks) {
		struct arena_chunk *chunk = arena->chunks;

		arena->chunks = chunk->next;
		free(chunk);
	}
}
