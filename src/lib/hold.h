/* Holding a program that was just started (inject/holder.h), while it is opened. */
#ifndef LIB_HOLD_H
#define LIB_HOLD_H

#include <gospect/hold.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * Holds the child as soon as it is a Go program; a shell may call exec first. A program that has
 * loaded Go as a library runs. Gives up `seconds` after the first exec, or when *cancel is not 0;
 * then the child runs, and is not traced any more. The result says what it was before it became a
 * Go program; NULL: it was one from the start. `exe` as in gospect_target_options.
 */
struct error *hold_where_it_begins(struct gospect_hold *hold, const char *exe, double seconds,
				   const atomic_int *cancel);

/* Whether the child, which has not been waited for, has ended. */
bool child_has_ended(pid_t child);

#endif
