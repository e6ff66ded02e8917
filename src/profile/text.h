/*
 * Text from the target, made fit for files that others parse: names and labels are whatever bytes a
 * hostile program put there, and the formats want UTF-8.
 */
#ifndef PROFILE_TEXT_H
#define PROFILE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "base/strbuf.h"

/* Adds the bytes, with U+FFFD for each that is not part of valid UTF-8, and for NUL. */
void text_add(struct strbuf *sb, const char *bytes, size_t length);

/* The id of the text as valid UTF-8; INTERN_FAILED when there is no memory. */
uint32_t text_intern(struct intern *in, const char *bytes, size_t length);

#endif
