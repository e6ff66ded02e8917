/* Which process -p means: an id, or the name of a Go program. */
#ifndef CLI_FIND_H
#define CLI_FIND_H

#include <sys/types.h>

#include "cli/cli.h"

/* For a parser: PID or NAME. *word is the earlier one, or NULL; two are an error. */
error_t parse_target(const char *arg, const char **word, struct argp_state *state);

/*
 * The process id of a PID or NAME. For a name it is that of the one Go process of that name. It
 * reads processes, so call it before gospect drops its privilege. ERROR_USAGE: several match, and
 * they are listed; ERROR_FAILED: none matches.
 */
struct error *find_target(const char *word, const char *verb, pid_t *ret) must_check;

#endif
