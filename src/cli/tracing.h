/* Traces of live processes, for the verbs that make them. */
#ifndef CLI_TRACING_H
#define CLI_TRACING_H

#include <argp.h>
#include <gospect/trace.h>

#include "cli/target_options.h"

/* stop_on_signals(), and SIGUSR1 for a flight. No number of signals prevents the removal of the
 * agent. */
void tracing_handle_signals(bool flight);

/* gospect_trace_create(), with progress and with lines about written flights. From now on SIGUSR1
 * applies to this trace. */
struct error *tracing_create(const struct gospect_trace_options *options,
			     struct gospect_trace **ret) must_check;
/* gospect_trace_begin(); resumes a held command. */
struct error *tracing_begin(struct gospect_trace *trace, struct cli_target *s) must_check;
/* gospect_trace_run(), and the summary. `path`: where the trace was written; NULL: nowhere. */
struct error *tracing_run(struct gospect_trace *trace, const char *path) must_check;

static inline void cleanup_trace(struct gospect_trace **trace)
{
	gospect_trace_destroy(*trace);
}
#define _cleanup_trace_ __attribute__((cleanup(cleanup_trace)))

#endif
