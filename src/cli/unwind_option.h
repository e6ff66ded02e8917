/* --unwind METHOD, for the verbs that show stacks. */
#ifndef CLI_UNWIND_OPTION_H
#define CLI_UNWIND_OPTION_H

#include "cli/cli.h"

/* A child parser; its input is uint32_t: an enum gospect_unwind. */
extern const struct argp unwind_argp;

#endif
