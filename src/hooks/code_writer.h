/* Machine code that is written into a page of gospect's, for another address. */
#ifndef HOOKS_CODE_WRITER_H
#define HOOKS_CODE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct code {
	uint8_t *page;
	uint64_t address; /* of the page, in the target */
	size_t size;
	size_t at;
	bool failed; /* it did not fit, or a distance was too large */
};

static inline void code_put(struct code *c, const void *bytes, size_t n)
{
	if (c->failed || n > c->size - c->at) {
		c->failed = true;
		return;
	}
	memcpy(c->page + c->at, bytes, n);
	c->at += n;
}

/* The address of what comes next. */
static inline uint64_t code_here(const struct code *c)
{
	return c->address + c->at;
}

/* `alignment` is a power of two. */
static inline void code_align(struct code *c, size_t alignment)
{
	size_t at = (c->at + alignment - 1) & ~(alignment - 1);

	c->failed |= at > c->size;
	c->at = c->failed ? c->at : at;
}

#endif
