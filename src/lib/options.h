/* Options that came from a program which may have been compiled with another version's headers. */
#ifndef LIB_OPTIONS_H
#define LIB_OPTIONS_H

#include <stddef.h>

#include "base/error.h"

/*
 * Copies the options into ret, of `size` bytes, which is zero. `given` begins with its own size, or
 * is NULL. Members beyond its size stay 0; members beyond `size` have to be 0: else ERROR_USAGE.
 */
struct error *options_take(const void *given, void *ret, size_t size, const char *name) must_check;

#endif
