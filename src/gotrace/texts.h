/*
 * The texts of a trace's events, valid UTF-8, each kept once and identified by a number while it is
 * in use.
 *
 * A program may make new texts without end (a log with a request's id), and a trace may last for
 * days. So with each generation, and when there are many new ones, all holders of numbers of texts
 * mark them, and the others are forgotten; their numbers are given to later texts. The bytes of
 * those that stay move into an arena of their own, and the one before goes back to the system as a
 * whole: what a trace keeps is all that it takes. The texts kept at once have limits: a text beyond
 * them is 0, the empty text, and counted.
 */
#ifndef GOTRACE_TEXTS_H
#define GOTRACE_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#define TEXTS_MAX (1u << 20)
#define TEXTS_MAX_BYTES (128u << 20)
#define TEXTS_FAILED (UINT32_MAX - 1)

struct text {
	char *data; /* `length` bytes, then a NUL; NULL: the number is free */
	uint32_t length;
	uint32_t next; /* the next of the same hash, or the next that is free; 0: none */
	bool marked;
	bool pinned;
};

struct texts {
	struct text *items; /* the first is the empty one */
	size_t count;
	size_t capacity;
	uint32_t *buckets;
	size_t bucket_count;
	uint32_t free; /* the first free number; 0: none */
	size_t used;   /* numbers that are not free, without the empty one */
	size_t bytes;
	struct arena arena; /* storage of the texts */
	size_t swept_used;  /* that the last sweep has left */
	/* When it is time to sweep. */
	size_t due_used;
	size_t due_bytes;
	uint64_t due_refused;
	uint64_t refused; /* texts beyond the limits, so far */
};

/* The number of these bytes, with U+FFFD for invalid UTF-8; TEXTS_FAILED: no memory. */
uint32_t texts_add(struct texts *t, const char *bytes, size_t length);

/* "" for an unknown number. Valid until the next sweep. */
static inline const char *texts_get(const struct texts *t, uint32_t number)
{
	return number && number < t->count && t->items[number].data ? t->items[number].data : "";
}
static inline uint32_t texts_length(const struct texts *t, uint32_t number)
{
	return number < t->count ? t->items[number].length : 0;
}

/* The current texts stay forever. */
void texts_pin(struct texts *t);

/* So many came since the last sweep that it is time for one. */
bool texts_are_due(const struct texts *t);
/* Some came, so that it is worth one when a generation has ended. */
bool texts_are_new(const struct texts *t);
/* For each number that is held; then one sweep forgets all others. */
void texts_mark(struct texts *t, uint32_t number);
void texts_sweep(struct texts *t);

void texts_release(struct texts *t);

#endif
