/* Recorded files: profiles, execution traces, and perf.data of Linux perf. */
#ifndef GOSPECT_RECORDED_H
#define GOSPECT_RECORDED_H

#include <gospect/profile.h>
#include <gospect/write.h>

GOSPECT_BEGIN

enum gospect_recorded_kind {
	GOSPECT_RECORDED_PROFILE = 0,   /* pprof, or nothing that is known */
	GOSPECT_RECORDED_TRACE = 1,     /* an execution trace, gospect's or Go's own */
	GOSPECT_RECORDED_PERF_DATA = 2, /* perf record */
};

/* By the first bytes. */
GOSPECT_API enum gospect_recorded_kind gospect_recorded_kind(const void *bytes, size_t size);

enum gospect_recorded_flags {
	GOSPECT_RECORDED_LABELS = 1, /* samples of a trace have their labels */
	/* Traces only: the time in which goroutines waited, and who ended the waits, as
	 * gospect_requests_wakers() has it. */
	GOSPECT_RECORDED_WAKERS = 2,
	/* Traces only: single goroutines, which GOSPECT_HTML lists. Their sums take up to 200 MB.
	 */
	GOSPECT_RECORDED_GOROUTINES = 4,
};

struct gospect_recorded_options {
	size_t size;      /* of this structure */
	const char *exe;  /* of perf.data: the program, where it is not at the path that it was
			   * recorded at. NULL: it is there */
	const char *name; /* how messages name the file; NULL: "the file" */
	/* Traces only: the time in which goroutines have this label and value. NULL: all. */
	const char *label;
	const char *value;
	uint32_t flags;    /* a sum of enum gospect_recorded_flags */
	uint32_t reserved; /* 0 */
	/* Called with one line for each thing that the file lacks, or that is wrong with it. NULL:
	 * no callback. */
	void (*remark)(void *arg, const char *line);
	void *arg; /* of remark() */
	/* Stays until the call is over. NULL: it cannot be cancelled. */
	const struct gospect_cancel *cancel;
};

/*
 * Returns the file as a profile. That of a trace is exact to the nanosecond: a sample is a period
 * in one state. A trace has a goroutine's stack where it stopped, not where it ran: then only its
 * start function is known. Stacks of Go programs in perf.data are computed anew (perf record
 * --call-graph dwarf). The bytes may be freed. GOSPECT_ERROR_CORRUPT says what is wrong with
 * them.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_recorded_profile(const void *bytes, size_t size,
			 const struct gospect_recorded_options *options,
			 struct gospect_profile **ret);

/*
 * perf.data only. Writes the file again for programs that read perf.data: the callchain of each
 * sample is the stack that gospect_recorded_profile() has, without inlined calls. The registers and
 * the bytes of stack are left out. `flags` of the options is 0; `label` has no effect.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_recorded_rewrite(const void *bytes, size_t size,
			 const struct gospect_recorded_options *options, struct gospect_sink sink);

/* What all goroutines did that began at one function. */
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

/* Traces only. Hands over each, longest first, until start() returns anything but 0, which is no
 * error. Its argument is valid during the call. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_recorded_starts(const void *bytes, size_t size,
			const struct gospect_recorded_options *options,
			int (*start)(void *arg, const struct gospect_start *start), void *arg);

GOSPECT_END

#endif
