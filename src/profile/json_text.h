/* A string of the target as JSON text. */
#ifndef PROFILE_JSON_TEXT_H
#define PROFILE_JSON_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/*
 * Writes the string with quotes; invalid UTF-8 is replaced, and unprintable characters are escaped.
 * It contains no '<': within HTML's script element it can neither end the element nor open a
 * comment.
 */
struct error *json_text_write(const char *text, FILE *out) must_check;
struct error *json_text_write_bytes(const char *bytes, size_t length, FILE *out) must_check;

#endif
