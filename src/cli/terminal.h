/* Fits text to the width of a terminal. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/strbuf.h"

/* The terminal's columns; 0: it is no terminal, or has no known width. */
size_t terminal_width(FILE *out);

/* Writes the line as printable_write_line() does, and empties it. On a terminal, "..." replaces
 * what does not fit. */
void terminal_write_line(struct strbuf *line, FILE *out);
/* Likewise. */
void terminal_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether tables leave out their less important columns. */
bool terminal_is_narrow(FILE *out);
/* Writes `head`, then `text`: on a terminal in lines that end between words, and begin with
 * `indent` spaces, except the first. */
void terminal_write_words(FILE *out, const char *head, const char *text, size_t indent);

/* A function without the directories of its package: "server.(*Server).Run" for
 * "example.com/team/server.(*Server).Run". */
const char *short_function(const char *name);

#endif
