/* Options, progress and summary of the verbs that make a recording. */
#ifndef CLI_RECORDING_H
#define CLI_RECORDING_H

#include <gospect/profile.h>

#include "cli/target_options.h"

/* -d, -r and --budget: a child parser; its input is a zeroed struct gospect_record_options. */
extern const struct argp recording_argp;

/* gospect_record(), with its progress on a terminal. Resumes a held command when everything is
 * ready. */
struct error *recording_take(struct cli_target *target, const struct gospect_record_options *given,
			     struct gospect_profile **ret) must_check;

/* Prints the summary: duration, samples, accuracy and cost. `path`: where the recording was
 * written; NULL: standard output. */
void recording_say(const struct gospect_profile *profile,
		   const struct gospect_record_options *given, const char *path);

#endif
