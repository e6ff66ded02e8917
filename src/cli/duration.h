/* Durations of the command line: plain seconds ("10", "0.5"), or Go's syntax ("500ms", "1h30m"). */
#ifndef CLI_DURATION_H
#define CLI_DURATION_H

#include "cli/cli.h"

/* Parses the whole text, in seconds; false when it is not a duration. */
bool parse_duration(const char *text, double *ret);
/* Likewise, from inside a parser; `least` and `most` are in seconds. */
error_t parse_duration_option(const char *arg, double least, double most, double *ret,
			      struct argp_state *state);

#endif
