#include "base/cursor.h"

#include <string.h>

static const uint8_t *take(struct cursor *c, size_t n)
{
	const uint8_t *at = c->at;

	if (c->failed || (size_t)(c->end - at) < n) {
		c->failed = true;
		return NULL;
	}
	c->at += n;
	return at;
}

#define CURSOR_READ(name, type)                           \
	type name(struct cursor *c)                       \
	{                                                 \
		const uint8_t *p = take(c, sizeof(type)); \
		type value = 0;                           \
                                                          \
		if (p)                                    \
			memcpy(&value, p, sizeof(value)); \
		return value;                             \
	}

CURSOR_READ(cursor_u8, uint8_t)
CURSOR_READ(cursor_u16, uint16_t)
CURSOR_READ(cursor_u32, uint32_t)
CURSOR_READ(cursor_u64, uint64_t)

uint64_t cursor_uvarint(struct cursor *c)
{
	uint64_t value = 0;

	for (int shift = 0; shift < 70; shift += 7) {
		const uint8_t *p = take(c, 1);

		if (!p)
			return 0;
		if (shift < 64)
			value |= (uint64_t)(*p & 0x7f) << shift;
		if (!(*p & 0x80))
			return value;
	}
	c->failed = true;
	return 0;
}

const char *cursor_string(struct cursor *c)
{
	const uint8_t *nul = c->failed ? NULL : memchr(c->at, 0, c->end - c->at);

	if (!nul) {
		c->failed = true;
		return NULL;
	}
	return (const char *)take(c, nul + 1 - c->at);
}

const void *cursor_bytes(struct cursor *c, size_t n)
{
	return take(c, n);
}

void cursor_seek(struct cursor *c, size_t offset)
{
	if (offset > (size_t)(c->end - c->start))
		c->failed = true;
	else
		c->at = c->start + offset;
}

struct error *cursor_error(const struct cursor *c)
{
	if (!c->failed)
		return NULL;
	return error_format(ERROR_CORRUPT, "%s is truncated or damaged at byte %zu", c->what,
			    (size_t)(c->at - c->start));
}
