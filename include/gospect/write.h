/* Formats, and where they are written to. */
#ifndef GOSPECT_WRITE_H
#define GOSPECT_WRITE_H

#include <gospect/error.h>

GOSPECT_BEGIN

/* Snapshots have all of them; profiles all but GOSPECT_TEXT and GOSPECT_JSON. */
enum gospect_format {
	GOSPECT_TEXT = 1,       /* as the Go runtime prints goroutines: runtime.Stack, SIGQUIT */
	GOSPECT_JSON = 2,       /* its keys are in gospect-dump(1) */
	GOSPECT_PPROF = 3,      /* gzipped protobuf, for go tool pprof */
	GOSPECT_FOLDED = 4,     /* a line a stack, as flamegraph.pl and inferno take it */
	GOSPECT_SPEEDSCOPE = 5, /* JSON, for www.speedscope.app */
	GOSPECT_HTML = 6,       /* a flame graph in one file that needs no network */
	/* Of profiles: GOSPECT_PPROF, with each sample's `idle_ns` as a numeric label, for
	 * gospect_profile_read() in this or another process. */
	GOSPECT_PPROF_IDLE = 7,
	/* As GOSPECT_FOLDED; each stack ends in a frame of its state: "[chan receive]". */
	GOSPECT_FOLDED_STATE = 8,
	GOSPECT_FIREFOX = 9, /* JSON, for profiler.firefox.com */
	GOSPECT_DOT = 10,    /* of waits alone: a graph, for Graphviz */
	/* GOSPECT_PPROF of a recording with the types and labels of Go's CPU profile: running
	 * goroutines alone. */
	GOSPECT_PPROF_CPU = 11,
	GOSPECT_DEBUG_TEXT = 12, /* of gospect_heap_profile(): runtime/pprof's text of debug=1 */
	GOSPECT_HPROF = 13, /* of gospect_retained_find(): for Eclipse MAT, Perfetto and others */
};

/* Where output goes, in pieces and in order. It is passed by value. */
struct gospect_sink {
	/* Writes all bytes and returns 0, or returns an errno value: then the call that writes
	 * fails. ECANCELED becomes GOSPECT_ERROR_CANCELLED. NULL: the bytes go to `fd`. */
	int (*write)(void *arg, const void *bytes, size_t size);
	void *arg;
	int fd; /* stays open. If it is a pipe without a reader, the process gets SIGPIPE, as from
		   write(2) */
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

/*
 * A file that appears whole or not at all. It has no name until it is committed, so neither an
 * error nor SIGKILL leaves a part of it. Only its owner may read it (mode 0600). A symbolic link of
 * that name is replaced. It is followed only if it leads to a device or a pipe, and only root or
 * this user can have made it. "-" is standard output, to which bytes go at once.
 */
struct gospect_output;

GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_output_open(const char *path, struct gospect_output **ret);

/* A sink that writes to the file. gospect_output_commit() returns the error of a write that failed.
 * */
GOSPECT_API struct gospect_sink gospect_output_sink(struct gospect_output *output);

/* Renames the finished file to its name and replaces an older file of that name. Call it once. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_output_commit(struct gospect_output *output);

/* Removes an uncommitted file. Takes NULL as well. */
GOSPECT_API void gospect_output_close(struct gospect_output *output);

GOSPECT_END

#endif
