/* The options of most verbs: which target, where to write, and which goroutines. */
#ifndef CLI_REQUEST_H
#define CLI_REQUEST_H

#include "cli/filter_options.h"
#include "cli/output_options.h"
#include "cli/subject.h"

struct request {
	struct subject_options subject;
	struct output_options output;
	struct gospect_filter filter;
};

/* Child parsers; their input is struct request. The second lacks the filter. */
extern const struct argp request_argp, request_without_filter_argp;

/* The children of a verb's own parser that has one of them and nothing else. */
extern const struct argp_child request_children[], request_without_filter_children[];

#endif
