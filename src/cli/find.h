/* Which process -p means: an id, or the name of a Go program. */
#ifndef CLI_FIND_H
#define CLI_FIND_H

#include <sys/types.h>

#include "cli/cli.h"

/* From inside a parser: PID or NAME. *word is what was given before, or NULL; two are an error. */
error_t parse_target(const char *arg, const char **word, struct argp_state *state);

/*
 * The process id: of a name that of the one Go process that is called so. Looks at processes, and
 * so before gospect gives up its privilege. ERROR_USAGE: there are several, which are listed;
 * ERROR_FAILED: there is none.
 */
struct error *find_target(const char *word, const char *verb, pid_t *ret) must_check;

#endif
