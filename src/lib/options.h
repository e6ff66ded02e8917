/* Options that came from a program which may have been compiled with another version's headers. */
#ifndef LIB_OPTIONS_H
#define LIB_OPTIONS_H

#include <stddef.h>

#include "base/error.h"

/*
 * Copies them into ret, of `size` bytes, which is zero. `given` begins with its own size, or is
 * NULL. What it is too short for stays 0; what it has besides has to be 0: ERROR_USAGE.
 */
struct error *options_take(const void *given, void *ret, size_t size, const char *name) must_check;

#endif
