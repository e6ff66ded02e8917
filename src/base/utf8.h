/*
 * Text from the target, made fit for files that others parse: names and labels are whatever bytes a
 * hostile program put there, and the formats want UTF-8.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "base/strbuf.h"

/* The character that begins here; the bytes it takes, or 0 when it is no valid UTF-8. */
size_t utf8_decode(const char *text, size_t left, uint32_t *ret);

/* Adds the bytes, with U+FFFD for each that is not part of valid UTF-8, and for NUL. */
void utf8_add(struct strbuf *sb, const char *bytes, size_t length);

/* The id of the text as valid UTF-8; INTERN_FAILED when there is no memory. */
uint32_t utf8_intern(struct intern *in, const char *bytes, size_t length);

#endif
