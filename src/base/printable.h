/*
 * Text from outside on its way to a terminal or to a file of lines: names, labels, paths and
 * messages can hold whatever bytes a hostile program chose. Control characters, invalid UTF-8, and
 * characters that would reverse, hide or break the text around them become escape sequences, as Go
 * writes them: \n, \x1b, \u202e. Printable characters stay.
 */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/strbuf.h"

bool printable_is(uint32_t character);

void printable_add(struct strbuf *sb, const char *bytes, size_t length);
void printable_adds(struct strbuf *sb, const char *s);

/* Writes one line: whatever its arguments hold, its only newline is the one that ends it. */
void printable_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void printable_vline(FILE *out, const char *format, va_list args);
/* The same for a line in a strbuf, which is empty afterwards. */
void printable_write_line(struct strbuf *line, FILE *out);

/* Writes JSON of any number of lines. Its strings keep their values: unprintable characters become
 * JSON's own \u202e. */
void printable_write_json(const char *json, FILE *out);

#endif
