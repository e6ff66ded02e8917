/* --source DIR, for the verbs that write pages. */
#ifndef CLI_SOURCE_OPTION_H
#define CLI_SOURCE_OPTION_H

#include <gospect/profile.h>

#include "cli/cli.h"

/* A child parser; its input is const char *: the directory, NULL without the option. */
extern const struct argp source_argp;

/* ERROR_USAGE: the output is no page; ERROR_FAILED: it is no directory. Call it before gospect
 * gives up its privilege. */
struct error *source_check(const char *folder, enum gospect_format format,
			   const char *verb) must_check;
/* Adds the source lines to the profile, with a remark when there are none. Does nothing without a
 * directory. */
struct error *source_add(const char *folder, struct gospect_profile *profile) must_check;

#endif
