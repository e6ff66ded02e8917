#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define LEAST_PIECE (4ul << 10)
#define MOST_PIECE (256ul << 10)
#define ALIGNMENT 8ul

struct arena_piece {
	struct arena_piece *before;
	size_t size; /* with this head */
};

/* Each is as large as all before it: small arenas take a page. */
static size_t piece_size(const struct arena *a, size_t want)
{
	size_t size = a->mapped < MOST_PIECE ? a->mapped : MOST_PIECE;

	size = size > LEAST_PIECE ? size : LEAST_PIECE;
	return want <= size ? size : (want + LEAST_PIECE - 1) & ~(LEAST_PIECE - 1);
}

static bool add_piece(struct arena *a, size_t want)
{
	struct arena_piece *piece;
	size_t size;

	if (want > SIZE_MAX / 2)
		return false;
	size = piece_size(a, want + sizeof(*piece));
	piece = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (piece == MAP_FAILED)
		return false;
	*piece = (struct arena_piece){a->last, size};
	a->last = piece;
	a->at = (char *)(piece + 1);
	a->left = size - sizeof(*piece);
	a->mapped += size;
	return true;
}

char *arena_take(struct arena *a, size_t size)
{
	char *taken;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
	if (size > a->left && !add_piece(a, size))
		return NULL;
	taken = a->at;
	a->at += size;
	a->left -= size;
	return taken;
}

char *arena_copy(struct arena *a, const void *bytes, size_t length)
{
	char *copy = length < SIZE_MAX ? arena_take(a, length + 1) : NULL;

	if (!copy)
		return NULL;
	if (length)
		memcpy(copy, bytes, length);
	copy[length] = '\0';
	return copy;
}

void arena_release(struct arena *a)
{
	struct arena_piece *piece = a->last, *before;

	for (; piece; piece = before) {
		before = piece->before;
		munmap(piece, piece->size);
	}
	*a = (struct arena){0};
}
