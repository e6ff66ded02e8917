/* Fits text to a terminal: that a line fits its width. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/strbuf.h"

/* Columns of the terminal that this is; 0: it is none, or does not say. */
size_t terminal_width(FILE *out);

/* Writes the line, which is empty afterwards, as printable_write_line() does; on a terminal no more
 * of it than fits, with "..." for the rest. */
void terminal_write_line(struct strbuf *line, FILE *out);
/* Likewise. */
void terminal_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether tables leave out columns that the reader can do without. */
bool terminal_is_narrow(FILE *out);
/* Writes `head`, then `text`: on a terminal in lines that end between words, and begin with
 * `indent` spaces, except the first. */
void terminal_write_words(FILE *out, const char *head, const char *text, size_t indent);

/* A function without the folders of its package: "server.(*Server).Run" of
 * "example.com/team/server.(*Server).Run". */
const char *short_function(const char *name);

#endif
