/*
 * Storage for many small objects that are freed together. It is mapped for them alone, in pieces of
 * up to 256 KB, and goes back to the system when they are freed, whatever else the heap holds.
 *
 * With malloc(), the strings of one second of a trace leave gaps between longer-lived objects. The
 * strings of the next second do not fit these gaps exactly, so the process grows although it keeps
 * no more than before.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_piece;

/* {0} is an empty one. */
struct arena {
	struct arena_piece *last;
	char *at; /* in the last piece */
	size_t left;
	size_t mapped; /* bytes of all pieces */
};

/* Allocates `size` bytes, aligned for 64-bit numbers. They never move. NULL: no memory. */
char *arena_take(struct arena *a, size_t size);
/* A copy of these bytes and a NUL; NULL: no memory. */
char *arena_copy(struct arena *a, const void *bytes, size_t length);
void arena_release(struct arena *a);

#endif
