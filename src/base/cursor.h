/*
 * The one way to read bytes from outside: every read is checked against the end. After the first
 * read past the end the cursor is `failed`, every later read returns 0, and cursor_error() says
 * what was read and where it failed. So a parser checks once, before it uses what it read. All
 * formats are little-endian.
 */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct bytes {
	const uint8_t *data;
	size_t size;
};

struct cursor {
	const uint8_t *start;
	const uint8_t *at;
	const uint8_t *end;
	const char *what; /* for messages: "the pclntab of /usr/bin/etcd" */
	bool failed;
};

static inline struct cursor cursor_of(const void *bytes, size_t size, const char *what)
{
	const uint8_t *b = bytes;

	return (struct cursor){b, b, b + size, what, false};
}

uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_u16(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
/* LEB128, as encoding/binary.Uvarint; more than 10 bytes is a failure. */
uint64_t cursor_uvarint(struct cursor *c);
/* NUL-terminated, in place; NULL when there is no NUL before the end. */
const char *cursor_string(struct cursor *c);
const void *cursor_bytes(struct cursor *c, size_t n);
void cursor_seek(struct cursor *c, size_t offset);

/* NULL when no read failed. */
struct error *cursor_error(const struct cursor *c) must_check;

#endif
