/*
 * Byte strings, each kept once and known by a small number: 0 is the empty string, the others count
 * up in the order in which they came. A string stays where it is until intern_release().
 */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#define INTERN_FAILED UINT32_MAX

struct interned {
	char *data; /* `length` bytes, then a NUL */
	uint32_t length;
	uint32_t next; /* the next of the same hash, or 0 */
};

struct intern {
	struct interned *strings; /* count of them */
	size_t count;
	size_t capacity;
	uint32_t *buckets;
	size_t bucket_count;
	struct arena bytes;
};

/* INTERN_FAILED when there is no memory. */
uint32_t intern_bytes(struct intern *in, const void *bytes, size_t length);
uint32_t intern_string(struct intern *in, const char *s);
/* The number of a string that is kept already; INTERN_FAILED when it is not. */
uint32_t intern_find(const struct intern *in, const void *bytes, size_t length);
static inline const char *intern_get(const struct intern *in, uint32_t id)
{
	return id < in->count ? in->strings[id].data : "";
}
void intern_release(struct intern *in);

#endif
