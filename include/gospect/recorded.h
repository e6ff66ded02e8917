/* Recorded files: profiles, execution traces, and perf.data of Linux perf. */
#ifndef GOSPECT_RECORDED_H
#define GOSPECT_RECORDED_H

#include <gospect/profile.h>
#include <gospect/write.h>

GOSPECT_BEGIN

enum gospect_recorded_kind {
	GOSPECT_RECORDED_PROFILE = 0,   /* pprof, or an unknown file */
	GOSPECT_RECORDED_TRACE = 1,     /* an execution trace: gospect's, also in
					 * Perfetto's format, or Go's own */
	GOSPECT_RECORDED_PERF_DATA = 2, /* perf record */
};

/* The kind of a file, by its first bytes. */
GOSPECT_API enum gospect_recorded_kind gospect_recorded_kind(const void *bytes, size_t size);

enum gospect_recorded_flags {
	GOSPECT_RECORDED_LABELS = 1, /* samples of a trace have their labels */
	/* Traces only: waits of goroutines and who ended them, as gospect_requests_wakers() returns
	 * them. */
	GOSPECT_RECORDED_WAKERS = 2,
	/* Traces only: also single goroutines, which take up to 200 MB, and the critical paths of
	 * the slowest requests. GOSPECT_HTML shows both. */
	GOSPECT_RECORDED_GOROUTINES = 4,
};

struct gospect_recorded_options {
	size_t size;      /* of this structure */
	const char *exe;  /* of perf.data: the program. NULL: the recorded path */
	const char *name; /* how messages name the file; NULL: "the file" */
	/* Traces only: the time in which goroutines have this label and value. NULL: all. */
	const char *label;
	const char *value;
	uint32_t flags;    /* a sum of enum gospect_recorded_flags */
	uint32_t reserved; /* 0 */
	/* Called with one line for each thing that the file lacks or that is wrong in it. NULL: no
	 * callback. */
	void (*remark)(void *arg, const char *line);
	void *arg; /* of remark() */
	/* Must outlive the call. NULL: it cannot be cancelled. */
	const struct gospect_cancel *cancel;
};

/*
 * Returns the file as a profile. The profile of a trace is exact to the nanosecond: a sample is a
 * period in one state. A trace has the stack where a goroutine stopped, but not where it ran: of
 * running time, only the start function is known, unless the trace has CPU samples. Of perf.data
 * (perf record --call-graph dwarf), gospect computes the stacks of Go programs itself. The bytes
 * may be freed after the call. GOSPECT_ERROR_CORRUPT: the file is damaged; the message says where.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_recorded_profile(const void *bytes, size_t size,
			 const struct gospect_recorded_options *options,
			 struct gospect_profile **ret);

/*
 * perf.data only. Writes the file again, for programs that read perf.data. The callchain of each
 * sample is the stack of gospect_recorded_profile(), without inlined calls. Registers and stack
 * bytes are left out. `flags` of the options must be 0; `label` has no effect.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_recorded_rewrite(const void *bytes, size_t size,
			 const struct gospect_recorded_options *options, struct gospect_sink sink);

/* The time of all goroutines with one start function. */
struct gospect_start {
	const char *name; /* of the function; "" when it is not known */
	uint64_t goroutines;
	uint64_t total_ns;
	uint64_t running_ns;
	uint64_t runnable_ns;
	uint64_t syscall_ns;
	uint64_t waiting_ns;
	size_t wait_count;
	const struct gospect_wait *const *waits; /* longest first */
};

/* Traces only. Calls start() for each start function, longest first. It ends early, without an
 * error, when start() returns anything but 0. The argument is valid during the call. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_recorded_starts(const void *bytes, size_t size,
			const struct gospect_recorded_options *options,
			int (*start)(void *arg, const struct gospect_start *start), void *arg);

GOSPECT_END

#endif
