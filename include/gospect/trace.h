/* Execution traces: what every goroutine does, and when. */
#ifndef GOSPECT_TRACE_H
#define GOSPECT_TRACE_H

#include <gospect/confine.h>
#include <gospect/target.h>
#include <gospect/write.h>

GOSPECT_BEGIN

enum gospect_trace_format {
	GOSPECT_TRACE_GO = 0,       /* for go tool trace; the version is 1.`wire` */
	GOSPECT_TRACE_PERFETTO = 1, /* for ui.perfetto.dev */
};

enum gospect_trace_flags {
	GOSPECT_TRACE_NO_STACKS = 1, /* events without stacks */
	GOSPECT_TRACE_IN_MEMORY =
		2, /* no file and no sink: gospect_trace_bytes() returns the trace */
	GOSPECT_TRACE_NO_NAMES =
		4, /* requests have no method, path, route, status, peer or trace id */
	/* Also record the allocations that the program's heap profile samples.
	 * gospect_trace_begin() then fails if the program keeps no heap profile. */
	GOSPECT_TRACE_ALLOC = 16,
};

/* Frames of a stack at most. */
#define GOSPECT_TRACE_MOST_DEPTH 127
/* CPU samples of a thread in a second of its CPU time, at most. */
#define GOSPECT_TRACE_MOST_CPU_HZ 1000

struct gospect_trace_options {
	size_t size;     /* of this structure */
	double duration; /* seconds; 0: until it is cancelled or the target ends */
	/* Keep only this many last seconds, in memory. Each gospect_trace_write_flight(), and the
	 * end of the trace, write them to a new file. 0: the whole trace is written. */
	double flight;
	/* The limit of the file and the records that are not decoded yet, or of the memory of a
	 * flight; 0: 256 MB. */
	uint64_t max_bytes;
	/* Refuse to trace if the expected pause of the program is longer, in seconds; 0: no limit.
	 * */
	double max_pause;
	uint32_t stack_depth; /* frames of a stack at most; 0: 32 */
	uint32_t format;      /* an enum gospect_trace_format */
	uint32_t flags;       /* a sum of enum gospect_trace_flags */
	uint32_t reserved;    /* 0 */
	/*
	 * A POSIX extended regular expression. Calls of matching functions are recorded as regions.
	 * Calls of the handlers of net/http and gRPC always are. NULL: only these.
	 */
	const char *root;
	/* The file. It is PATH.partial while it grows, and is renamed at the end. "-": standard
	 * output. NULL: the trace goes to `sink`; a flight needs a file. A flight with NAME.trace
	 * writes NAME-YYYYmmdd-HHMMSS-REASON.trace, in local time. It never replaces a file: a
	 * number, from 2 on, stands before REASON instead. The reasons are "usr1"
	 * (gospect_trace_write_flight()), "interrupt" (the call was cancelled), "duration" (it is
	 * over), "exit" (the target ended), "error", and the first word of a condition of `when`.
	 * */
	const char *path;
	struct gospect_sink sink;
	/* Called about ten times a second, with the seconds that have passed and the number of
	 * events so far. NULL: no callback. */
	void (*progress)(void *arg, double seconds, uint64_t events);
	/* Called when the agent has been removed and decoding continues. NULL: no callback. */
	void (*detached)(void *arg);
	/* Called after each gospect_trace_write_flight(). `seconds` is the length of the trace in
	 * the file. `err` is NULL, or says why the file was not written; the trace goes on. NULL:
	 * no callback. */
	void (*flight_written)(void *arg, double seconds, const struct gospect_error *err);
	void *arg; /* of these */
	/* As flight_written(), with the path of the file, which is valid during the call and NULL
	 * after an error. Also called when the trace ends without an error. NULL: no callback. */
	void (*incident_written)(void *arg, const char *path, double seconds,
				 const struct gospect_error *err);
	/* The version of Go's format, 1.`wire`: 22, 23 or 25. Tools of an older Go cannot read it.
	 * From 23 on, `go tool trace` shows the stacks of goroutines that wait during the whole
	 * trace; from 25 on, also the time of day. 0: 22. */
	uint32_t wire;
	/* Of a flight: keep this many files and remove older ones; 0: keep all. */
	uint32_t keep;
	/* Of a flight: conditions, as for `gospect trace --when`: "request > 500ms", "goroutines >
	 * 10000", "panic". When one becomes true, the flight is written to a file, and a remark
	 * says what happened. The list ends with NULL; NULL: no conditions. */
	const char *const *when;
	/* CPU samples (call stacks) for each second of CPU time of a thread; 0: none. If the kernel
	 * denies them, a remark says why, and the trace has none. With GOSPECT_TRACE_NO_STACKS it
	 * has none either. */
	double cpu_hz;
};

struct gospect_trace;

/*
 * Opens the file. Call it before you open the target, so that a wrong file name loses no trace. The
 * strings, the sink and what `arg` points to must outlive the trace.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_trace_create(const struct gospect_trace_options *options, struct gospect_trace **ret);

/*
 * Installs the agent in the target. That stops the target once, for 0.3 ms with 10 threads and 4 ms
 * with 1,000. docs/reference/written-to-target.md lists what it writes. The agent of a killed
 * gospect is removed first. When the call returns, tracing has begun. The target must stay open
 * until the trace is destroyed. `surgeon` is that of the target, and must outlive the trace; NULL:
 * the trace starts one, and ends it. After an error nothing is left in the target.
 * GOSPECT_ERROR_UNSUPPORTED: unknown code, or another architecture. _DENIED: a debugger or another
 * gospect traces it, the pause would be too long, or permission is missing. _GONE, _CANCELLED.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_trace_begin(struct gospect_trace *trace, struct gospect_target *target,
		    struct gospect_surgeon *surgeon);

/*
 * Records events until the duration is over, the call is cancelled, the target ends, or the trace
 * has its maximum size. None of these is an error. Then it removes the agent, decodes what is left,
 * and completes the file. After an error, the file has all events before it. Remarks of the target
 * say what the trace lacks.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *gospect_trace_run(struct gospect_trace *trace);

/*
 * Removes the agent that a killed gospect left in the target. *ret_found is 1 if there was one,
 * else 0. `surgeon` is as in gospect_trace_begin(). GOSPECT_ERROR_DENIED: the other gospect still
 * runs.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_trace_clean(struct gospect_target *target, struct gospect_surgeon *surgeon, int *ret_found);

/* Asks gospect_trace_run() to write the flight now. May be called several times, and by any thread;
 * async-signal-safe. */
GOSPECT_API void gospect_trace_write_flight(struct gospect_trace *trace);

struct gospect_trace_stats {
	uint64_t duration_ns; /* of the trace in the file */
	uint64_t events;
	uint64_t lost;        /* events that were lost for lack of room or CPU time */
	uint64_t stacks;      /* different ones */
	uint64_t stacks_lost; /* events without a stack, because there were too many different ones
			       */
	uint64_t texts_lost;  /* texts of tasks, regions, logs and labels that were left out */
	uint64_t pause_ns; /* the longest time for which all threads of the target were stopped */
	uint32_t is_full;  /* 1: it ended early, at its maximum size */
	uint32_t reserved;
};

/* NULL: the file is not complete yet. Valid until the trace is destroyed. */
GOSPECT_API const struct gospect_trace_stats *
gospect_trace_stats(const struct gospect_trace *trace);

/* With GOSPECT_TRACE_IN_MEMORY: the trace so far, valid until it is destroyed. */
GOSPECT_API const void *gospect_trace_bytes(const struct gospect_trace *trace, size_t *ret_size);

/* Removes the agent, if necessary, and an incomplete file. Takes NULL as well. Before the target is
 * closed. */
GOSPECT_API void gospect_trace_destroy(struct gospect_trace *trace);

GOSPECT_END

#endif
