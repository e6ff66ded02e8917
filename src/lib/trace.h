/* What other files of the library need of a struct gospect_trace. */
#ifndef LIB_TRACE_H
#define LIB_TRACE_H

#include <gospect/trace.h>

#include "base/outfile.h"

/* Where a trace goes: what a struct gospect_trace begins with. */
struct trace_place {
	struct outfile *out; /* what it is writing; NULL: nothing is open */
	const char *family;  /* what begins the names of files that it may make later; NULL: none */
};

/* Apart from the rest of a trace: programs that only read traces do not link what makes them. */
static inline const struct trace_place *trace_place(const struct gospect_trace *t)
{
	return (const struct trace_place *)t;
}

static inline void cleanup_gospect_trace(struct gospect_trace **t)
{
	gospect_trace_destroy(*t);
}
#define _cleanup_gospect_trace_ __attribute__((cleanup(cleanup_gospect_trace)))

#endif
