/*
 * The texts of a trace's events, valid UTF-8, each kept once and identified by a number while it is
 * in use.
 *
 * A program may make new texts without end (a log with a request's id), and a trace may last for
 * days. So with each generation, and when there are many new ones, all holders of numbers of texts
 * mark them, and the others are forgotten; their numbers are given to later texts. The remaining
 * texts move into a new arena, and the old arena goes back to the system. So memory holds only what
 * the trace keeps. The texts kept at once have limits: a text beyond them is 0, the empty text, and
 * counted.
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
	size_t used;   /* numbers in use, without the empty text */
	size_t bytes;
	struct arena arena; /* storage of the texts */
	size_t swept_used;  /* numbers in use after the last sweep */
	/* When a sweep is due. */
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

/* Keeps the current texts for ever. */
void texts_pin(struct texts *t);

/* Whether enough texts came since the last sweep that another is due. */
bool texts_are_due(const struct texts *t);
/* Whether enough texts came that a sweep is worth it at the end of a generation. */
bool texts_are_new(const struct texts *t);
/* Call it for each number in use; then one sweep forgets all others. */
void texts_mark(struct texts *t, uint32_t number);
void texts_sweep(struct texts *t);

void texts_release(struct texts *t);

#endif
