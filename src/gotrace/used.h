/*
 * Which numbers (of texts or stacks) a generation uses, in the order of their first use, so that a
 * writer defines each once. Finding an id takes no search.
 */
#ifndef GOTRACE_USED_H
#define GOTRACE_USED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct used {
	uint32_t *ids; /* by number; 0: not used */
	size_t id_capacity;
	uint32_t *numbers; /* used numbers, in the order of their first use */
	size_t count;
	size_t capacity;
};

/* Adds the number if this generation does not have it yet; it gets *ids + 1. 0: no memory. */
uint32_t used_add(struct used *used, uint32_t number, uint32_t *ids);

/* The number's id in this generation; 0: none yet. */
static inline uint32_t used_find(const struct used *used, uint32_t number)
{
	return number < used->id_capacity ? used->ids[number] : 0;
}

/* Call it before the next generation; keeps the memory. */
void used_clear(struct used *used);

void used_release(struct used *used);

#endif
