/* Names, numbers and times as the page shows them. */
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "top/page.h"

/* The next character and its bytes; '?' for an unprintable one. */
static size_t next_character(const char *text, size_t left, bool ascii, uint32_t *ret)
{
	size_t n = utf8_decode(text, left, ret);

	if (!n || !printable_is(*ret) || *ret == 0xfffd || (ascii && *ret >= 0x7f))
		*ret = '?';
	return n ? n : 1;
}

static size_t count_characters(const char *text, size_t length)
{
	size_t count = 0;
	uint32_t c;

	for (size_t i = 0; i < length; count++)
		i += next_character(text + i, length - i, false, &c);
	return count;
}

static size_t add_part(struct strbuf *sb, const char *text, size_t skip, size_t columns, bool ascii)
{
	size_t length = strlen(text), added = 0;
	uint32_t c;

	for (size_t i = 0, n; i < length && added < columns; i += n) {
		n = next_character(text + i, length - i, ascii, &c);
		if (skip) {
			skip--;
			continue;
		}
		if (c == '?')
			strbuf_addc(sb, '?');
		else
			strbuf_add(sb, text + i, n);
		added++;
	}
	return added;
}

size_t top_add_start(struct strbuf *sb, const char *text, size_t columns, bool ascii)
{
	return add_part(sb, text, 0, columns, ascii);
}

size_t top_add_text(struct strbuf *sb, const char *text, size_t columns, bool ascii)
{
	size_t count = count_characters(text, strlen(text));

	if (count <= columns || !columns)
		return add_part(sb, text, 0, columns, ascii);
	strbuf_addc(sb, '<');
	return 1 + add_part(sb, text, count - columns + 1, columns - 1, ascii);
}

void top_add_time(struct strbuf *sb, uint64_t ns)
{
	uint64_t s = ns / 1000000000;

	if (s < 1)
		strbuf_addf(sb, "%lums", ns / 1000000);
	else if (s < 60)
		strbuf_addf(sb, "%.1fs", ns / 100000000 / 10.0);
	else if (s < 3600)
		strbuf_addf(sb, "%lum%02lus", s / 60, s % 60);
	else if (s < 86400)
		strbuf_addf(sb, "%luh%02lum", s / 3600, s / 60 % 60);
	else
		strbuf_addf(sb, "%lud%02luh", s / 86400, s / 3600 % 24);
}
