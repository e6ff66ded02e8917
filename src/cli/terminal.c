#include "cli/terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "cli/cli.h"

/* Lines on a narrower terminal would be truncated too much to be useful. */
enum { MIN_WIDTH = 20, NARROW = 120 };

size_t terminal_width(FILE *out)
{
	struct winsize size;
	int fd = fileno(out);

	if (fd < 0 || !isatty(fd) || ioctl(fd, TIOCGWINSZ, &size))
		return 0;
	return size.ws_col && size.ws_col < MIN_WIDTH ? MIN_WIDTH : size.ws_col;
}

/* The number of bytes of the first `columns` characters. */
static size_t bytes_of(const char *text, size_t length, size_t columns)
{
	size_t at = 0;
	uint32_t character;

	for (; columns && at < length; columns--) {
		size_t n = utf8_decode(text + at, length - at, &character);

		at += n ? n : 1;
	}
	return at;
}

void terminal_write_line(struct strbuf *line, FILE *out)
{
	_cleanup_strbuf_ struct strbuf shown = STRBUF_INIT;
	size_t width = terminal_width(out), fits;

	say_work(NULL);
	printable_add(&shown, line->data, line->length);
	fits = width ? bytes_of(shown.data, shown.length, width) : shown.length;
	if (fits < shown.length)
		fprintf(out, "%.*s...\n", (int)bytes_of(shown.data, shown.length, width - 3),
			shown.data);
	else
		fprintf(out, "%s\n", shown.data);
	strbuf_reset(line);
}

void terminal_line(FILE *out, const char *format, ...)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	_cleanup_free_ char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	strbuf_adds(&line, text ? text : "");
	terminal_write_line(&line, out);
}

bool terminal_is_narrow(FILE *out)
{
	size_t width = terminal_width(out);

	return width && width < NARROW;
}

/* How much of the text fits into one line: up to a space, if there is one. */
static size_t line_length(const char *text, size_t length, size_t columns)
{
	size_t fits = bytes_of(text, length, columns), at = fits;

	if (fits == length)
		return length;
	while (at && text[at] != ' ')
		at--;
	return at ? at : fits;
}

void terminal_write_words(FILE *out, const char *head, const char *text, size_t indent)
{
	_cleanup_strbuf_ struct strbuf shown = STRBUF_INIT;
	size_t width = terminal_width(out), at, n;

	printable_adds(&shown, head);
	printable_adds(&shown, text);
	if (!width || width < 2 * indent) {
		fprintf(out, "%s\n", shown.data);
		return;
	}
	n = line_length(shown.data, shown.length, width);
	fprintf(out, "%.*s\n", (int)n, shown.data);
	for (at = n; at < shown.length; at += n) {
		at += shown.data[at] == ' ';
		n = line_length(shown.data + at, shown.length - at, width - indent);
		fprintf(out, "%*s%.*s\n", (int)indent, "", (int)n, shown.data + at);
	}
}

const char *short_function(const char *name)
{
	const char *from = name;

	/* Stop at brackets: a type parameter has a path, too. */
	for (const char *c = name; *c && *c != '[' && *c != '('; c++)
		if (*c == '/')
			from = c + 1;
	return from;
}
