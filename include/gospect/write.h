/* Formats, and where they are written to. */
#ifndef GOSPECT_WRITE_H
#define GOSPECT_WRITE_H

#include <gospect/api.h>

GOSPECT_BEGIN

/* Snapshots have all of them; profiles all but GOSPECT_TEXT and GOSPECT_JSON. */
enum gospect_format {
	GOSPECT_TEXT = 1,       /* as the Go runtime prints goroutines: runtime.Stack, SIGQUIT */
	GOSPECT_JSON = 2,       /* its keys are in gospect-dump(1) */
	GOSPECT_PPROF = 3,      /* gzipped protobuf, for go tool pprof */
	GOSPECT_FOLDED = 4,     /* a line a stack, as flamegraph.pl and inferno take it */
	GOSPECT_SPEEDSCOPE = 5, /* JSON, for www.speedscope.app */
	GOSPECT_HTML = 6,       /* a flame graph in one file that needs no network */
};

/* Where output goes, in pieces and in order. It is passed by value. */
struct gospect_sink {
	/* Writes all of it; 0, or an errno value, with which the writing fails. NULL: to `fd`. */
	int (*write)(void *arg, const void *bytes, size_t size);
	void *arg;
	int fd; /* stays open; where it is a pipe, a reader that is gone is SIGPIPE, as for write(2)
		 */
};

static inline struct gospect_sink gospect_sink_fd(int fd)
{
	struct gospect_sink sink = {NULL, NULL, fd};

	return sink;
}

static inline struct gospect_sink
gospect_sink_function(int (*write)(void *arg, const void *bytes, size_t size), void *arg)
{
	struct gospect_sink sink = {write, arg, -1};

	return sink;
}

GOSPECT_END

#endif
