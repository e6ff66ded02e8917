/* Reads a profile from any file that this room writes, or from a dump as JSON. The first bytes tell
 * which it is.
 */
#ifndef PROFILE_READ_ANY_H
#define PROFILE_READ_ANY_H

#include "profile/read.h"

/* As profile_read(). Plain folded stacks lack states; speedscope files lack wait reasons. */
struct error *profile_read_any(const void *bytes, size_t size, const atomic_int *cancel,
			       struct profile_file *ret) must_check;

#endif
