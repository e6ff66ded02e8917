/* A profile from any file that this room writes, and from a dump as JSON; told by its first bytes.
 */
#ifndef PROFILE_READ_ANY_H
#define PROFILE_READ_ANY_H

#include "profile/read.h"

/* As profile_read(). Plain folded stacks have no states, speedscope files no wait reasons. */
struct error *profile_read_any(const void *bytes, size_t size, const atomic_int *cancel,
			       struct profile_file *ret) must_check;

#endif
