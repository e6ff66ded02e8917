/* `gospect report perf.data -o right.data`: the recording again, with right callchains. */
#ifndef CLI_REPORT_PERF_H
#define CLI_REPORT_PERF_H

#include "cli/report_ask.h"

/* Whether the output is to be a perf.data file: -f perf, or -o NAME.data. */
bool report_perf_wanted(const struct output_options *output);
/* ERROR_USAGE: the recording would be replaced, or options say what to show. */
struct error *report_perf_check(const struct report_ask *ask, const struct output_options *output,
				const char *path) must_check;
struct error *report_perf_write(const struct report_file *file, struct outfile *out) must_check;

#endif
