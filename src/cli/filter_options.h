/* Which goroutines to show: --state, --wait, --func, --label, -g. A goroutine must match all that
 * are given.
 */
#ifndef CLI_FILTER_OPTIONS_H
#define CLI_FILTER_OPTIONS_H

#include <gospect/snapshot.h>

#include "cli/cli.h"

/* A child parser; its input is a zeroed struct gospect_filter. */
extern const struct argp filter_argp;

#endif
