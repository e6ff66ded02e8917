/*
 * A string that grows. Running out of memory is remembered in `failed` and makes every later call
 * do nothing, so that it is checked once, at the end. `data` is always NUL-terminated, never NULL.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf {
	char *data;
	size_t length;
	size_t capacity;
	bool failed;
};

extern char strbuf_empty[];

#define STRBUF_INIT                  \
	{                            \
		.data = strbuf_empty \
	}

void strbuf_add(struct strbuf *sb, const void *bytes, size_t n);
void strbuf_adds(struct strbuf *sb, const char *s);
void strbuf_addc(struct strbuf *sb, char c);
void strbuf_addf(struct strbuf *sb, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The number in decimal or, without 0x, in hexadecimal: what addf does, ten times faster. */
void strbuf_addu(struct strbuf *sb, unsigned long value);
void strbuf_addx(struct strbuf *sb, unsigned long value);
/* The number as Go's binary.AppendUvarint and protobuf write it (unsigned LEB128); cursor_uvarint()
 * reads it. */
void strbuf_add_uvarint(struct strbuf *sb, uint64_t value);
/* Writes the same to `to`, which has room for UVARINT_MAX bytes. Returns its length. */
#define UVARINT_MAX 10
static inline size_t uvarint_put(uint8_t *to, uint64_t value)
{
	size_t n = 0;

	if (value < 0x80) {
		to[0] = value;
		return 1;
	}
	if (value < 1 << 14) {
		to[0] = value | 0x80;
		to[1] = value >> 7;
		return 2;
	}
	for (; value >= 0x80; value >>= 7)
		to[n++] = value | 0x80;
	to[n++] = value;
	return n;
}
/* Makes room for n more bytes and a NUL. False: no memory, or an earlier call failed. */
bool strbuf_grow(struct strbuf *sb, size_t n);
/* Room for n more bytes, which the caller writes and then counts in `length`, with a NUL behind
 * them if the result is used as a string. NULL: no memory. */
static inline char *strbuf_reserve(struct strbuf *sb, size_t n)
{
	bool room = sb->capacity > sb->length + n && !sb->failed;

	return room || strbuf_grow(sb, n) ? sb->data + sb->length : NULL;
}
/* Makes it the empty string and keeps the memory. */
void strbuf_reset(struct strbuf *sb);
void strbuf_release(struct strbuf *sb);

#define _cleanup_strbuf_ __attribute__((cleanup(strbuf_release)))

#endif
