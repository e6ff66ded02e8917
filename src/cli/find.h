/* Which process -p or --container means: an id, the name of a Go program, or the container that it
 * is in. */
#ifndef CLI_FIND_H
#define CLI_FIND_H

#include <sys/types.h>

#include "cli/cli.h"

/* For a parser: PID or NAME. *word is the earlier one, or NULL; two are an error. */
error_t parse_target(const char *arg, const char **word, struct argp_state *state);
/* Likewise, the id of a container, its begin or its name; also behind "docker://". */
error_t parse_container(const char *arg, const char **id, struct argp_state *state);

/*
 * The process id of a PID or NAME. For a name it is that of the one Go process of that name. It
 * reads processes, so call it before gospect drops its privilege. ERROR_USAGE: several match, and
 * they are listed; ERROR_FAILED: none matches.
 */
struct error *find_target(const char *word, const char *verb, pid_t *ret) must_check;
/* Likewise, of the one Go process in a container whose id begins so. */
struct error *find_container(const char *id, const char *verb, pid_t *ret) must_check;

#endif
