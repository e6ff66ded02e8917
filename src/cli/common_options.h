/* The options of most verbs: which target, where to write, and which goroutines. */
#ifndef CLI_COMMON_OPTIONS_H
#define CLI_COMMON_OPTIONS_H

#include "cli/filter_options.h"
#include "cli/output_options.h"
#include "cli/target_options.h"

struct common_options {
	struct target_options target;
	struct output_options output;
	struct gospect_filter filter;
};

/* Child parsers; their input is struct common_options. The second lacks the filter. */
extern const struct argp common_options_argp, common_options_without_filter_argp;

/* The children of a verb's own parser that has the first one alone. */
extern const struct argp_child common_options_children[];

#endif
