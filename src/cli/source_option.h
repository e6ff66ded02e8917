/* --source DIR, of the verbs that write pages. */
#ifndef CLI_SOURCE_OPTION_H
#define CLI_SOURCE_OPTION_H

#include <gospect/profile.h>

#include "cli/cli.h"

/* A child parser; its input is const char *: the directory, NULL without the option. */
extern const struct argp source_argp;

/* ERROR_USAGE when the output is no page; ERROR_FAILED when it is no directory. Before gospect
 * gives up its privilege. */
struct error *source_check(const char *folder, enum gospect_format format,
			   const char *verb) must_check;
/* Adds the source lines to the profile, and says when there are none. Without a directory it does
 * nothing. */
struct error *source_add(const char *folder, struct gospect_profile *profile) must_check;

#endif
