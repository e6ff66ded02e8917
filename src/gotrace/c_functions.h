/* Names of the C functions at words of stacks: the trace's symbols know Go's alone. */
#ifndef GOTRACE_C_FUNCTIONS_H
#define GOTRACE_C_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/intern.h"
#include "base/map.h"

/* More are not named. */
#define C_FUNCTIONS_MOST (1u << 16)

struct c_functions {
	struct map words; /* a word -> its file << 32 | its function */
	struct intern texts;
};

/* False: no memory. */
static inline bool c_functions_add(struct c_functions *c, uint64_t word, const char *function,
				   const char *file)
{
	uint32_t name, path;
	uint64_t *place;

	if (c->words.count >= C_FUNCTIONS_MOST)
		return true;
	name = intern_string(&c->texts, function);
	path = intern_string(&c->texts, file);
	place = map_at(&c->words, word);
	if (name == INTERN_FAILED || path == INTERN_FAILED || !place)
		return false;
	*place = (uint64_t)path << 32 | name;
	return true;
}

/* NULL: it is not known. */
static inline const char *c_functions_find(const struct c_functions *c, uint64_t word,
					   const char **ret_file)
{
	const uint64_t *place = map_find(&c->words, word);

	if (!place)
		return NULL;
	*ret_file = intern_get(&c->texts, *place >> 32);
	return intern_get(&c->texts, *place & UINT32_MAX);
}

static inline void c_functions_release(struct c_functions *c)
{
	map_release(&c->words);
	intern_release(&c->texts);
}

#endif
