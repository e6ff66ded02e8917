/*
 * What a trace of a live process tells its user by remarks: what is missing from it, why, and what
 * to do about it.
 */
#ifndef LIB_TRACE_REMARKS_H
#define LIB_TRACE_REMARKS_H

#include <stdbool.h>

#include "collect/tracer.h"
#include "lib/trace_state.h"

/* What it will not have, when it begins. */
void trace_remark_begin(const struct gospect_trace *t);
/* What it does not have, when it has ended. `full`: it reached its maximum size. */
void trace_remark_end(const struct gospect_trace *t, const struct tracer_stats *stats, bool full);

#endif
