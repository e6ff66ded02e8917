/*
 * Which numbers (of texts, of stacks) a generation uses, and in which order it met them first: so
 * that a writer defines each once. Nothing is cleared between generations: each number remembers
 * the last one that used it.
 */
#ifndef GOTRACE_USED_H
#define GOTRACE_USED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct used {
	struct use {
		uint64_t generation; /* that uses it, or used it last */
		uint32_t id;
	} * uses; /* by number */
	size_t use_capacity;
	uint32_t *numbers;
	size_t count; /* of this generation: 0 when the next one begins */
	size_t capacity;
};

/* In this generation for the first time; it gets *ids + 1. 0: no memory. */
uint32_t used_add(struct used *used, uint64_t generation, uint32_t number, uint32_t *ids);

/* The id that the number has in this generation; 0: none yet. */
static inline uint32_t used_find(const struct used *used, uint64_t generation, uint32_t number)
{
	if (number < used->use_capacity && used->uses[number].generation == generation)
		return used->uses[number].id;
	return 0;
}

void used_release(struct used *used);

#endif
