/* Execution traces: what every goroutine does, and when. */
#ifndef GOSPECT_TRACE_H
#define GOSPECT_TRACE_H

#include <gospect/confine.h>
#include <gospect/target.h>
#include <gospect/write.h>

GOSPECT_BEGIN

enum gospect_trace_format {
	GOSPECT_TRACE_GO = 0,       /* "go 1.22 trace", or of `wire`, for go tool trace */
	GOSPECT_TRACE_PERFETTO = 1, /* for ui.perfetto.dev */
};

enum gospect_trace_flags {
	GOSPECT_TRACE_NO_STACKS = 1, /* events without stacks */
	GOSPECT_TRACE_IN_MEMORY = 2, /* to no file and no sink: gospect_trace_bytes() has it */
	GOSPECT_TRACE_NO_NAMES = 4,  /* requests without method, path, route, status, peer, trace */
	/* Also records allocations: those that the program's heap profile samples. Then
	 * gospect_trace_begin() fails if the program keeps no heap profile. */
	GOSPECT_TRACE_ALLOC = 16,
};

/* Frames of a stack at most. */
#define GOSPECT_TRACE_MOST_DEPTH 127
/* CPU samples of a thread in a second of its CPU time, at most. */
#define GOSPECT_TRACE_MOST_CPU_HZ 1000

struct gospect_trace_options {
	size_t size;     /* of this structure */
	double duration; /* seconds; 0: until it is cancelled or the target ends */
	/* Keep only the last so many seconds, in memory; each gospect_trace_write_flight() and the
	 * end write them to a file of their own. 0: all is written as it comes. */
	double flight;
	/* Limit of the file with the undecoded records, or of a flight in memory; 0: 256 MB. */
	uint64_t max_bytes;
	/* Do not trace a program that is expected to be stopped for longer: seconds; 0: any. */
	double max_pause;
	uint32_t stack_depth; /* frames of a stack at most; 0: 32 */
	uint32_t format;      /* an enum gospect_trace_format */
	uint32_t flags;       /* a sum of enum gospect_trace_flags */
	uint32_t reserved;    /* 0 */
	/*
	 * A POSIX extended regular expression: calls and returns of functions that match are
	 * events, too, as regions. Those of net/http's and gRPC's handlers always are. NULL: no
	 * others.
	 */
	const char *root;
	/* The file: while it grows it is PATH.partial, and has its own name at the end. "-":
	 * standard output. NULL: it goes to `sink`, which a flight cannot.
	 * A flight's NAME.trace is written as NAME-YYYYmmdd-HHMMSS-REASON.trace, in local time, and
	 * never over another file: then there is a number, from 2 on, before REASON. The reasons
	 * are "usr1" (gospect_trace_write_flight()), "interrupt" (the calls were cancelled),
	 * "duration" (it is over), "exit" (the target ended) and "error". */
	const char *path;
	struct gospect_sink sink;
	/* Called about ten times a second, with the seconds that have passed and the number of
	 * events so far. NULL: no callback. */
	void (*progress)(void *arg, double seconds, uint64_t events);
	/* Called when the agent is removed; decoding goes on. NULL: no callback. */
	void (*detached)(void *arg);
	/* Called after each gospect_trace_write_flight(): `seconds` is the length of the trace in
	 * the file. `err` says why the file was not written, else it is NULL; the trace goes on.
	 * NULL: no callback. */
	void (*flight_written)(void *arg, double seconds, const struct gospect_error *err);
	void *arg; /* of these */
	/* As flight_written(), with the file's path, which is valid during the call and NULL after
	 * an error. Called at the end too, unless that is an error. NULL: not called. */
	void (*incident_written)(void *arg, const char *path, double seconds,
				 const struct gospect_error *err);
	/* Of Go's format the version 1.`wire`: 22, 23 or 25; older readers than that cannot read
	 * it. From 23 on `go tool trace` has the stacks of goroutines that wait during the whole
	 * trace, and from 25 on the time of day. 0: 22. */
	uint32_t wire;
	/* Of a flight: keep this many of its files, and remove older ones; 0: all. */
	uint32_t keep;
	/* Of a flight: conditions, each of which writes a file when it becomes true, as in
	 * `gospect trace --when`: "request > 500ms", "goroutines > 10000", "panic". The first word
	 * is the REASON in the file's name. A remark says what happened. NULL-terminated; NULL:
	 * none. */
	const char *const *when;
	/* CPU samples of each thread in a second of its CPU time: the stack of what it runs; 0:
	 * none. Where the kernel does not permit them, a remark says why, and the trace goes on
	 * without; so it does with GOSPECT_TRACE_NO_STACKS. */
	double cpu_hz;
};

struct gospect_trace;

/*
 * Opens the file, before the target is: no trace is lost to a name that cannot be written. The
 * strings, the sink and what `arg` points to stay until the trace is destroyed.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_trace_create(const struct gospect_trace_options *options, struct gospect_trace **ret);

/*
 * Puts the agent into the target, and stops the target once for it: 0.2 ms, longer with thousands
 * of threads. docs/reference/written-to-target.md lists what it writes. Tracing has begun when this
 * returns. The target stays open until the trace is destroyed. On an error nothing is left in the
 * target: GOSPECT_ERROR_UNSUPPORTED (unknown code, another architecture), _DENIED (a debugger or
 * another gospect traces it; the pause would be too long; no permission), _GONE, _CANCELLED. The
 * agent of a killed gospect is removed first. `surgeon`: the target's, which stays until the trace
 * is destroyed; NULL: the trace starts one, and ends it.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_trace_begin(struct gospect_trace *trace, struct gospect_target *target,
		    struct gospect_surgeon *surgeon);

/*
 * Records events until one of these happens, none of which is an error: the duration is over, the
 * target's cancel object is requested, the target ends, or the trace has its maximum size. Then it
 * removes the agent, decodes what is left, and completes the file. After an error the file has all
 * events up to it. Remarks of the target say what the trace lacks.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *gospect_trace_run(struct gospect_trace *trace);

/*
 * Removes the agent that a killed gospect has left in the target. Sets *ret_found to 1 when it
 * found an agent, else to 0. `surgeon` is used as by gospect_trace_begin(). GOSPECT_ERROR_DENIED:
 * the other gospect still runs.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_trace_clean(struct gospect_target *target, struct gospect_surgeon *surgeon, int *ret_found);

/* Asks gospect_trace_run() to write the flight now, as it is; may be called again. By any thread;
 * async-signal-safe. */
GOSPECT_API void gospect_trace_write_flight(struct gospect_trace *trace);

struct gospect_trace_stats {
	uint64_t duration_ns; /* of the trace in the file */
	uint64_t events;
	uint64_t lost;        /* events that there was no room for, or no time */
	uint64_t stacks;      /* different ones */
	uint64_t stacks_lost; /* events without their stack: there were too many different ones */
	uint64_t texts_lost;  /* texts of tasks, regions, logs and labels, likewise */
	uint64_t pause_ns;    /* how long all threads of the target were stopped at once, at most */
	uint32_t is_full;     /* 1: it ended early, as the file was as large as it may be */
	uint32_t reserved;
};

/* For a trace with a complete file; NULL: incomplete. Valid until it is destroyed. */
GOSPECT_API const struct gospect_trace_stats *
gospect_trace_stats(const struct gospect_trace *trace);

/* With GOSPECT_TRACE_IN_MEMORY: the trace so far, valid until it is destroyed. */
GOSPECT_API const void *gospect_trace_bytes(const struct gospect_trace *trace, size_t *ret_size);

/* Removes the agent, if necessary, and an incomplete file. Takes NULL as well. Before the target is
 * closed. */
GOSPECT_API void gospect_trace_destroy(struct gospect_trace *trace);

GOSPECT_END

#endif
