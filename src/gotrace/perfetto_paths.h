/* Critical paths of requests, in Perfetto's format: on a lane a slice for the request, and in it
 * one for each segment. Where a goroutine woke the next one, the arrow between the two goes by way
 * of the segment. */
#ifndef GOTRACE_PERFETTO_PATHS_H
#define GOTRACE_PERFETTO_PATHS_H

#include "gotrace/perfetto_writer.h"

void perfetto_write_path(struct trace_writer *w, const struct trace_path *path);

#endif
