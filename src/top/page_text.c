#include "top/page_text.h"

#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"

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

/* "a/b.(*T).M[a/c.T]" without its first directory, else its package, else its receiver; NULL: it
 * has none of these. */
static const char *shorter_name(const char *name)
{
	size_t plain = strcspn(name, "[("), slash = strcspn(name, "/"), dot = strcspn(name, ".");
	const char *receiver = strstr(name, ").");

	if (slash < plain)
		return name + slash + 1;
	if (dot < plain && name[dot + 1])
		return name + dot + 1;
	return *name == '(' && receiver && receiver[2] ? receiver + 2 : NULL;
}

size_t top_add_name(struct strbuf *sb, const char *name, size_t columns, bool ascii)
{
	const char *shorter;

	/* "[running]" and "(not known)". */
	if (*name == '[' || *name == '(')
		return top_add_start(sb, name, columns, ascii);
	while (count_characters(name, strlen(name)) > columns && (shorter = shorter_name(name)))
		name = shorter;
	return top_add_text(sb, name, columns, ascii);
}

void top_add_number(struct strbuf *sb, double n)
{
	if (n < 0.0005)
		strbuf_adds(sb, "    -");
	else if (n < 0.0995)
		strbuf_addf(sb, "%5.3f", n);
	else if (n < 9.995)
		strbuf_addf(sb, "%5.2f", n);
	else if (n < 999.95)
		strbuf_addf(sb, "%5.1f", n);
	else if (n < 99999.5)
		strbuf_addf(sb, "%5.0f", n);
	else if (n < 9999500)
		strbuf_addf(sb, "%4.0fk", n / 1e3);
	else
		strbuf_addf(sb, "%4.0fM", n / 1e6);
}

void top_add_percent(struct strbuf *sb, double part, double whole)
{
	double percent = whole > 0 ? 100 * part / whole : 0;

	if (percent < 0.05)
		strbuf_adds(sb, "   -");
	else if (percent < 9.95)
		strbuf_addf(sb, "%3.1f%%", percent);
	else
		strbuf_addf(sb, "%3.0f%%", percent);
}

void top_add_bar(struct strbuf *sb, double part, bool ascii)
{
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const letters[] = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};
	size_t level = part <= 0 ? 0 : 1 + part * 7.999;

	strbuf_adds(sb, (ascii ? letters : blocks)[level < 9 ? level : 8]);
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
