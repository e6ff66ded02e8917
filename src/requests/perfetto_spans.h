/*
 * The spans of a trace in Perfetto's format (gotrace/perfetto_reader.h), as requests/spans.h has
 * those of a Go trace. They lack what the file does not have: lines of stacks, allocations, and how
 * long a goroutine had waited before the trace.
 */
#ifndef REQUESTS_PERFETTO_SPANS_H
#define REQUESTS_PERFETTO_SPANS_H

#include "gotrace/perfetto_reader.h"
#include "requests/spans.h"

/* As spans_read(). */
struct error *perfetto_spans_read(struct perfetto_reader *reader,
				  const struct spans_options *options, struct span_tables *tables,
				  uint64_t *ret_duration) must_check;

#endif
