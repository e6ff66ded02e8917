/*
 * Large arrays of numbers that are written once, in order. They are in memory, or in a file of
 * which only what is read takes memory; in memory where no file can be written.
 */
#ifndef RETAINED_NUMBER_ARRAY_H
#define RETAINED_NUMBER_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Arrays of fewer bytes stay in memory. */
#define LEAST_ASIDE (8u << 20)

struct number_array {
	const uint32_t *items;
	size_t mapped; /* bytes of the file; 0: they are in memory */
};

/* Takes `items`, and puts many into a file if there can be one. */
struct number_array number_array_of(uint32_t *items, size_t count);
void number_array_release(struct number_array *a);
#define _cleanup_number_array_ __attribute__((cleanup(number_array_release)))

#define NUMBER_ARRAY_STEP (1u << 20)
/* For a pass over all of them, up or down: what was read so far takes no memory any more. */
void number_array_forget(const struct number_array *a);
static inline uint32_t number_array_pass(const struct number_array *a, size_t at)
{
	if (at % NUMBER_ARRAY_STEP == 0 && a->mapped)
		number_array_forget(a);
	return a->items[at];
}

/* One that is being written. */
struct number_writer {
	uint32_t *items; /* the last ones, which are not in the file */
	size_t count;
	size_t room;
	size_t written; /* numbers in the file */
	int file;       /* number + 1; 0: there is none */
	bool has_no_file;
	bool failed; /* no memory */
};

void number_writer_make_room(struct number_writer *w);
static inline void number_writer_add(struct number_writer *w, uint32_t number)
{
	if (w->count == w->room)
		number_writer_make_room(w);
	if (!w->failed)
		w->items[w->count++] = number;
}
/* What was written, and frees the writer's. */
struct error *number_writer_finish(struct number_writer *w, struct number_array *ret) must_check;
void number_writer_release(struct number_writer *w);

/* Reads in order what is written meanwhile. */
struct number_reader {
	size_t next;
	uint32_t *items; /* a part of the file */
	size_t first, end;
};

/* The next number, of which there must be one. False: no memory, or the file cannot be read. */
bool number_reader_fill(struct number_reader *r, const struct number_writer *w);
static inline bool number_reader_next(struct number_reader *r, const struct number_writer *w,
				      uint32_t *ret)
{
	if (r->next >= w->written)
		*ret = w->items[r->next - w->written];
	else if (r->next < r->end || number_reader_fill(r, w))
		*ret = r->items[r->next - r->first];
	else
		return false;
	r->next++;
	return true;
}
void number_reader_release(struct number_reader *r);
#define _cleanup_number_writer_ __attribute__((cleanup(number_writer_release)))

/* All bytes, or false. */
bool aside_write(int file, const void *bytes, size_t size);
bool aside_read(int file, void *bytes, size_t size, size_t from);

#endif
