/* Which processes descend from others, as far as the kernel knows: the children of a process that
 * has ended are those of another one. */
#ifndef LIB_DESCENDANTS_H
#define LIB_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct descendants {
	struct descendant *items; /* all processes, by pid */
	size_t count, capacity;
};

/* `ancestors`, their children, and so on. */
struct error *descendants_find(const int32_t *ancestors, size_t count,
			       struct descendants *ret) must_check;
void descendants_release(struct descendants *d);
bool descendants_have(const struct descendants *d, pid_t pid);

#endif
