#include "gotrace/label_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

static int by_key(const void *a, const void *b)
{
	const struct label_pair *x = a, *y = b;
	size_t n = x->key_length < y->key_length ? x->key_length : y->key_length;
	int order = n ? memcmp(x->key, y->key, n) : 0;

	if (order)
		return order;
	return x->key_length < y->key_length ? -1 : x->key_length > y->key_length;
}

static bool is_plain(unsigned char c)
{
	return c > ' ' && c != 0x7f && c != '=' && c != '%';
}

static void add_escaped(struct strbuf *sb, const char *bytes, size_t length)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	utf8_add(&text, bytes, length);
	for (size_t i = 0; i < text.length; i++) {
		if (is_plain(text.data[i]))
			strbuf_addc(sb, text.data[i]);
		else
			strbuf_addf(sb, "%%%02X", (unsigned char)text.data[i]);
	}
	sb->failed |= text.failed;
}

void label_text_add(struct strbuf *sb, struct label_pair *pairs, size_t count)
{
	qsort(pairs, count, sizeof(*pairs), by_key);
	for (size_t i = 0; i < count; i++) {
		if (i && !by_key(&pairs[i - 1], &pairs[i]))
			continue;
		if (i)
			strbuf_addc(sb, ' ');
		add_escaped(sb, pairs[i].key, pairs[i].key_length);
		strbuf_addc(sb, '=');
		add_escaped(sb, pairs[i].value, pairs[i].value_length);
	}
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads up to one of the characters in `ends`, or to the end. */
static const char *take(const char *text, const char *ends, struct strbuf *ret)
{
	strbuf_reset(ret);
	while (*text && !strchr(ends, *text)) {
		int high = *text == '%' ? digit(text[1]) : -1;
		int low = high >= 0 ? digit(text[2]) : -1;

		strbuf_addc(ret, low >= 0 ? (char)(high << 4 | low) : *text);
		text += low >= 0 ? 3 : 1;
	}
	return text;
}

bool label_text_next(const char **text, struct strbuf *key, struct strbuf *value)
{
	while (**text == ' ')
		++*text;
	if (!**text)
		return false;
	*text = take(*text, "= ", key);
	strbuf_reset(value);
	if (**text == '=')
		*text = take(*text + 1, " ", value);
	return true;
}

bool label_text_find(const char *text, const char *key, struct strbuf *value)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	size_t length = strlen(key);

	while (label_text_next(&text, &name, value))
		if (name.length == length && !memcmp(name.data, key, length))
			return true;
	return false;
}
