/* A trace that stays in memory, and the files that are written of it (gospect trace --flight). */
#ifndef LIB_TRACE_FLIGHT_H
#define LIB_TRACE_FLIGHT_H

#include "collect/tracer.h"
#include "lib/trace_state.h"

struct error *flight_check_name(const char *path) must_check;

/* Whether a file is due: it was asked for, or a condition is true. `batch` was added to the trace.
 */
bool flight_is_due(struct gospect_trace *t, const struct trace_batch *batch);
/* Writes the complete generations. A write error is told, and does not end the trace. */
struct error *flight_write(struct gospect_trace *t) must_check;
/* Writes at the end only what happened since the last write. */
struct error *flight_write_last(struct gospect_trace *t, bool failed) must_check;

/* The error when not even one generation fits. */
struct error *flight_too_small(const struct gospect_trace *t);

#endif
