#include "base/printable.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/utf8.h"

/* Beyond ASCII. Unicode's categories Cc, Cf, Zl and Zp, noncharacters among the specials, and the
 * replacement for tags; Cf without the signs that are seen (U+0600 to U+08E2). */
static const struct {
	uint32_t first, last;
} hidden[] = {
	{0x80, 0x9f},       {0xad, 0xad},       {0x61c, 0x61c},     {0x115f, 0x1160},
	{0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
	{0x2060, 0x206f},   {0x3164, 0x3164},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
	{0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x13430, 0x1345f}, {0x1bca0, 0x1bca3},
	{0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

bool printable_is(uint32_t c)
{
	if (c < 0x80)
		return c >= ' ' && c != 0x7f;
	for (size_t i = 0; i < ARRAY_SIZE(hidden) && c >= hidden[i].first; i++)
		if (c <= hidden[i].last)
			return false;
	return true;
}

static void add_escape(struct strbuf *sb, uint32_t c)
{
	const char *short_ones = "\nn\rr\tt", *at = c ? strchr(short_ones, c) : NULL;

	if (at && c < ' ')
		strbuf_addf(sb, "\\%c", at[1]);
	else if (c < 0x80)
		strbuf_addf(sb, "\\x%02x", c);
	else
		strbuf_addf(sb, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

/* The number of printable bytes at the beginning. */
static size_t count_printable(const char *bytes, size_t length)
{
	size_t at = 0, n;
	uint32_t c;

	while (at < length) {
		n = utf8_decode(bytes + at, length - at, &c);
		if (!n || !printable_is(c))
			break;
		at += n;
	}
	return at;
}

void printable_add(struct strbuf *sb, const char *bytes, size_t length)
{
	while (length) {
		size_t n = count_printable(bytes, length);
		uint32_t c;

		strbuf_add(sb, bytes, n);
		bytes += n;
		length -= n;
		n = utf8_decode(bytes, length, &c);
		if (n)
			add_escape(sb, c);
		else if (length)
			strbuf_addf(sb, "\\x%02x", (unsigned char)*bytes);
		bytes += n ? n : !!length;
		length -= n ? n : !!length;
	}
}

void printable_adds(struct strbuf *sb, const char *s)
{
	printable_add(sb, s, strlen(s));
}

static void write_line(const char *text, size_t length, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	printable_add(&line, text, length);
	strbuf_addc(&line, '\n');
	if (line.failed)
		fputs("(out of memory)\n", out);
	else
		fwrite(line.data, 1, line.length, out);
}

void printable_vline(FILE *out, const char *format, va_list args)
{
	_cleanup_free_ char *text = NULL;
	int n = vasprintf(&text, format, args);

	if (n < 0) {
		text = NULL;
		fputs("(out of memory)\n", out);
		return;
	}
	write_line(text, n, out);
}

void printable_line(FILE *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printable_vline(out, format, args);
	va_end(args);
}

void printable_write_line(struct strbuf *line, FILE *out)
{
	if (line->failed)
		fputs("(out of memory)\n", out);
	else
		write_line(line->data, line->length, out);
	strbuf_reset(line);
}

static void write_json_escape(uint32_t c, FILE *out)
{
	if (c < 0x10000)
		fprintf(out, "\\u%04x", c);
	else
		fprintf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
			0xdc00 + (c & 0x3ff));
}

void printable_write_json(const char *json, FILE *out)
{
	size_t length = strlen(json);

	while (length) {
		size_t n = count_printable(json, length);
		uint32_t c = 0xfffd;

		fwrite(json, 1, n, out);
		json += n;
		length -= n;
		if (!length)
			return;
		n = utf8_decode(json, length, &c);
		if (c == '\n')
			fputc('\n', out);
		else
			write_json_escape(c, out);
		json += n ? n : 1;
		length -= n ? n : 1;
	}
}
