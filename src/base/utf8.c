#include "base/utf8.h"

#include <stdbool.h>

/* Lowest code point that may take this many bytes. */
static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};

static size_t sequence_length(unsigned char lead)
{
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead < 0xe0)
		return 2;
	if (lead >= 0xe0 && lead < 0xf0)
		return 3;
	if (lead >= 0xf0 && lead < 0xf5)
		return 4;
	return 0;
}

size_t utf8_decode(const char *text, size_t left, uint32_t *ret)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n = left ? sequence_length(s[0]) : 0;
	uint32_t code;

	if (!n || n > left)
		return 0;
	code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < lowest[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	*ret = code;
	return n;
}

/* The bytes of the valid, non-NUL character at the start, or 0. */
static size_t valid_character(const char *s, size_t left)
{
	uint32_t code;
	size_t n = utf8_decode(s, left, &code);

	return n && code ? n : 0;
}

void utf8_add(struct strbuf *sb, const char *bytes, size_t length)
{
	size_t n, good = 0;

	for (size_t i = 0; i < length; i += n ? n : 1) {
		n = valid_character(bytes + i, length - i);
		if (n)
			continue;
		strbuf_add(sb, bytes + good, i - good);
		strbuf_adds(sb, "\xef\xbf\xbd");
		good = i + 1;
	}
	strbuf_add(sb, bytes + good, length - good);
}

static bool is_valid(const char *bytes, size_t length)
{
	size_t n;

	for (size_t i = 0; i < length; i += n) {
		n = valid_character(bytes + i, length - i);
		if (!n)
			return false;
	}
	return true;
}

uint32_t utf8_intern(struct intern *in, const char *bytes, size_t length)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (is_valid(bytes, length))
		return intern_bytes(in, bytes, length);
	utf8_add(&sb, bytes, length);
	return sb.failed ? INTERN_FAILED : intern_bytes(in, sb.data, sb.length);
}
