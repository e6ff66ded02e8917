/* The critical paths of the slowest HTTP and gRPC requests of a trace. */
#ifndef LIB_TRACE_PATHS_H
#define LIB_TRACE_PATHS_H

#include <gospect/recorded.h>

#include <stddef.h>

#include "profile/profile.h"

/* Into a profile whose page shows them, if the trace has such requests. Reads it twice: the first
 * time finds the slowest requests, and the second what goroutines did during these. */
struct error *trace_paths_read(const void *bytes, size_t size,
			       const struct gospect_recorded_options *options,
			       struct profile *p) must_check;

#endif
