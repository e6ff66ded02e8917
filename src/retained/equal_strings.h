/*
 * Strings that a heap holds more than once, by their contents. Bounded by the size of the heap:
 * when there are too many different ones, those that were seen once are forgotten.
 */
#ifndef RETAINED_EQUAL_STRINGS_H
#define RETAINED_EQUAL_STRINGS_H

#include "base/map.h"
#include "target/target.h"

#define EQUAL_SHOWN 64u /* bytes of a string that are kept */

struct equal_string {
	uint64_t hash;
	uint64_t length;
	uint64_t count;
	uint64_t bytes;   /* of all objects that hold it */
	uint64_t address; /* of one of them */
	char *text; /* its first EQUAL_SHOWN bytes; of those that equal_strings_finish() keeps */
};

struct string_place {
	uint64_t address;
	uint64_t length;
	uint64_t object_size;
};

struct equal_strings {
	struct target *t;
	size_t most; /* different ones that are known at a time */
	struct equal_string *items;
	size_t count;
	size_t capacity;
	struct map by_hash;
	struct string_place *waiting; /* to be read in one call */
	size_t waiting_count;
	size_t waiting_bytes;
	uint8_t *buffer;
	uint64_t seen;
	uint64_t forgotten; /* strings that may be equal to others */
};

/* For a heap of so many bytes. */
void equal_strings_init(struct equal_strings *s, struct target *t, uint64_t heap);
/* The bytes of a string lie in an object of this size. */
struct error *equal_strings_add(struct equal_strings *s, uint64_t address, uint64_t length,
				uint64_t object_size) must_check;
/* Keeps at most so many that are there more than once, those first whose copies take most. */
struct error *equal_strings_finish(struct equal_strings *s, size_t most) must_check;
void equal_strings_release(struct equal_strings *s);

/* What would be free if each was there once. */
static inline uint64_t equal_string_wasted(const struct equal_string *s)
{
	return s->bytes - s->bytes / s->count;
}

#endif
