/* Members of struct gospect_trace that other files of the library need. */
#ifndef LIB_TRACE_H
#define LIB_TRACE_H

#include <gospect/trace.h>

#include "base/outfile.h"

/* The output of a trace: the first member of struct gospect_trace. */
struct trace_place {
	struct outfile *out; /* the file being written; NULL: none open */
	const char *family;  /* the beginning of the names of later files; NULL: none */
	size_t keep;         /* how many of these; 0: all */
};

/* Separate from the rest of a trace: programs that only read traces do not link the tracer. */
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
