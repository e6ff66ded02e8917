#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

char strbuf_empty[1];

bool strbuf_grow(struct strbuf *sb, size_t n)
{
	char *items = sb->capacity ? sb->data : NULL;

	if (sb->failed)
		return false;
	if (!array_reserve(&items, &sb->capacity, sb->length + n + 1)) {
		sb->failed = true;
		return false;
	}
	sb->data = items;
	return true;
}

void strbuf_add(struct strbuf *sb, const void *bytes, size_t n)
{
	char *to = strbuf_reserve(sb, n);

	if (!to)
		return;
	memcpy(to, bytes, n);
	sb->length += n;
	sb->data[sb->length] = '\0';
}

void strbuf_adds(struct strbuf *sb, const char *s)
{
	strbuf_add(sb, s, strlen(s));
}

void strbuf_addc(struct strbuf *sb, char c)
{
	strbuf_add(sb, &c, 1);
}

void strbuf_addf(struct strbuf *sb, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0 || !strbuf_grow(sb, n))
		return;
	va_start(args, format);
	vsnprintf(sb->data + sb->length, n + 1, format, args);
	va_end(args);
	sb->length += n;
}

static void add_digits(struct strbuf *sb, unsigned long value, unsigned int base)
{
	char digits[24];
	size_t i = sizeof(digits);

	do
		digits[--i] = "0123456789abcdef"[value % base];
	while (value /= base);
	strbuf_add(sb, digits + i, sizeof(digits) - i);
}

void strbuf_addu(struct strbuf *sb, unsigned long value)
{
	add_digits(sb, value, 10);
}

void strbuf_addx(struct strbuf *sb, unsigned long value)
{
	add_digits(sb, value, 16);
}

void strbuf_add_uvarint(struct strbuf *sb, uint64_t value)
{
	uint8_t bytes[UVARINT_MAX];

	strbuf_add(sb, bytes, uvarint_put(bytes, value));
}

void strbuf_reset(struct strbuf *sb)
{
	sb->length = 0;
	if (sb->capacity)
		sb->data[0] = '\0';
}

void strbuf_release(struct strbuf *sb)
{
	if (sb->capacity)
		free(sb->data);
	*sb = (struct strbuf)STRBUF_INIT;
}
