/* Holding a program that was just started (inject/holder.h), while it is opened. */
#ifndef LIB_HOLD_H
#define LIB_HOLD_H

#include <gospect/hold.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * The child is held as soon as it is a Go program; a shell may call exec first. What has loaded Go
 * as a library runs. Gives up after `seconds`, or when *cancel is not 0. What it was while it was
 * no Go program; NULL: it was none. `exe` as in gospect_target_options.
 */
struct error *hold_where_it_begins(struct gospect_hold *hold, const char *exe, double seconds,
				   const atomic_int *cancel);

/* A child of ours that nobody has waited for. */
bool child_has_ended(pid_t child);

#endif
