/* The options, progress and summary that verbs share which make a recording. */
#ifndef CLI_RECORDING_H
#define CLI_RECORDING_H

#include <gospect/profile.h>

#include "cli/target_options.h"

/* -d, -r and --budget: a child parser; its input is a zeroed struct gospect_record_options. */
extern const struct argp recording_argp;

/* gospect_record(), with its progress shown on a terminal. A command that is held runs on when all
 * is ready. */
struct error *recording_take(struct cli_target *target, const struct gospect_record_options *given,
			     struct gospect_profile **ret) must_check;

/* One line: how long, how much, how exact, and at what cost; `path` where it was written, NULL for
 * standard output. */
void recording_say(const struct gospect_profile *profile,
		   const struct gospect_record_options *given, const char *path);

#endif
