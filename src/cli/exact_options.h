/* --exact and --max-pause, of verbs that read a whole heap. */
#ifndef CLI_EXACT_OPTIONS_H
#define CLI_EXACT_OPTIONS_H

#include <stdbool.h>

#include "cli/target_options.h"

struct exact_options {
	bool exact;
	bool stop;                     /* without a fork */
	double max_pause;              /* seconds; 0: any */
	struct target_options *target; /* set by the verb */
};

/* A child parser; its input is struct exact_options. */
extern const struct argp exact_options_argp;

/* Before cli_target_open(). */
struct error *exact_options_check(const struct exact_options *o, const char *verb) must_check;

/* Between these, the target is read as at one point in time. Without --exact, they do nothing. */
struct error *exact_begin(const struct exact_options *o, const struct cli_target *s) must_check;
struct error *exact_end(const struct exact_options *o, const struct cli_target *s) must_check;

#endif
