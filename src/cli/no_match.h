/* The error message for a filter that matches nothing: it lists the values that exist. */
#ifndef CLI_NO_MATCH_H
#define CLI_NO_MATCH_H

#include <gospect/snapshot.h>

#include "cli/cli.h"

/* Whether the filter leaves out anything. */
bool filter_is_set(const struct gospect_filter *filter);

/* ERROR_FAILED: "0 of 27 goroutines match --label user; labels are: zone". Reads the
 * target once more to list them; without a readable target the message lists none. `system` as for
 * a snapshot. */
struct error *no_match(struct gospect_target *target, const struct gospect_filter *filter,
		       bool system) must_check;

#endif
