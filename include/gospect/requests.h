/* The times and waits of each request, exactly, from an execution trace. */
#ifndef GOSPECT_REQUESTS_H
#define GOSPECT_REQUESTS_H

#include <gospect/profile.h>
#include <gospect/snapshot.h>
#include <gospect/trace.h>

GOSPECT_BEGIN

enum gospect_requests_flags {
	GOSPECT_REQUESTS_PATHS = 1,     /* requests have their critical paths */
	GOSPECT_REQUESTS_PER_ROUTE = 2, /* requests are grouped by their route, not by `per` */
	/* Requests with the same trace id (W3C traceparent) count as one request, whose name is
	 * that id. Requests without a trace id are left out. */
	GOSPECT_REQUESTS_BY_TRACE = 4,
	/* Requests have what was allocated for them. That needs a trace with GOSPECT_TRACE_ALLOC;
	 * for any other trace there is a remark. */
	GOSPECT_REQUESTS_ALLOC = 8,
};

struct gospect_requests_options {
	size_t size; /* of this structure */
	/*
	 * All goroutines with the same value of this label (runtime/pprof) are one request. NULL:
	 * each call of a function that matches `root` is a request.
	 */
	const char *label;
	/* A POSIX extended regular expression for names of functions. NULL: the handlers of
	 * net/http and gRPC. A trace that was recorded with the same `root` has all calls of these
	 * functions. Any other trace has only calls that block, make a system call or are
	 * preempted. */
	const char *root;
	const char *per; /* group requests by this label; NULL: one group */
	/* How messages name the trace; NULL: "the trace". */
	const char *name;
	/* Called with one line for each thing that the trace does not show, and why. NULL: no
	 * callback. */
	void (*remark)(void *arg, const char *line);
	void *arg; /* of remark() */
	/* Must outlive the call. NULL: it cannot be cancelled. */
	const struct gospect_cancel *cancel;
	uint32_t flags;    /* a sum of enum gospect_requests_flags */
	uint32_t reserved; /* 0 */
	/* A POSIX extended regular expression: only requests whose route matches. For a request
	 * without a known route, the path must match. NULL: all. */
	const char *route;
	uint64_t slower_ns; /* only requests that took longer than this */
	/* A POSIX extended regular expression: calls of these functions are parts of a request. The
	 * trace must have been recorded with them as `root`. Calls of database/sql, and of the
	 * clients of net/http and gRPC, always are parts. NULL: only these. */
	const char *part;
	uint64_t faster_ns; /* only complete requests that took no longer than this; 0: all */
};

struct gospect_requests;

/*
 * Reads the bytes of a trace in Go's format, gospect's or Go's own. They may be freed after the
 * call. To get the requests of a live target, trace it in memory first:
 *
 *	options.flags = GOSPECT_TRACE_IN_MEMORY;
 *	gospect_trace_create(&options, &trace);
 *	gospect_trace_begin(trace, target, NULL);
 *	gospect_trace_run(trace);
 *	bytes = gospect_trace_bytes(trace, &size);
 *	gospect_requests_read(bytes, size, &how, &requests);
 *
 * GOSPECT_ERROR_CORRUPT: the bytes are not a trace. GOSPECT_ERROR_FAILED: the trace has no request,
 * or none that .route, .slower_ns and .faster_ns permit.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_read(const void *bytes, size_t size,
		      const struct gospect_requests_options *options,
		      struct gospect_requests **ret);

/* Takes NULL as well. */
GOSPECT_API void gospect_requests_destroy(struct gospect_requests *requests);

/* One stack of a request in one state, and the time that the request spent there. */
struct gospect_request_place {
	uint64_t ns;
	uint64_t count; /* times */
	enum gospect_state state;
	uint32_t reserved;
	const char *wait_reason;           /* "" when it did not wait */
	const struct gospect_stack *stack; /* without addresses */
	/* How long a goroutine had been there, at least, when the trace began; the longest of them.
	 * 0: not known. */
	uint64_t waited_ns;
	/* Who ended the waits, longest first. Waits that did not end in the trace are left out. */
	size_t waker_count;
	const struct gospect_waker *const *wakers;
	/* Of running time, which is estimated from `count` CPU samples: the error of `ns`, at 95 %
	 * confidence. */
	uint64_t error_ns;
};

/* The running time of a function, without the functions that it called: its part of running_ns, by
 * CPU samples. */
struct gospect_running_function {
	const char *function;
	uint64_t samples;
	uint64_t ns;
	uint64_t error_ns; /* as in struct gospect_request_place */
};

/*
 * A part of a critical path. While the request's goroutine waits, the path is that of the goroutine
 * that ends the wait. A wait that no goroutine ends is on the path itself.
 */
struct gospect_path_segment {
	uint64_t begin_ns; /* since the trace began */
	uint64_t end_ns;
	uint64_t goroutine;
	const char *function;    /* its start function; "" when it is not known */
	const char *wait_reason; /* "" when it did not wait */
	enum gospect_state state;
	uint32_t is_unknown; /* 1: the trace does not show what the goroutine did then */
	uint32_t depth; /* 0: the request's own goroutine; else how many waits lead to this one */
	uint32_t reserved;
	/* Where it waited or made a system call; of a running goroutine, where it stopped. */
	const struct gospect_stack *stack;
};

/* The calls of one function that the goroutine of a request made. */
struct gospect_request_part {
	const char *function;
	uint64_t ns; /* of nested calls only the outermost counts */
	uint64_t count;
};

struct gospect_allocation_stack {
	uint64_t bytes;
	uint64_t objects;
	uint64_t bytes_error;
	uint64_t objects_error;
	uint64_t samples;
	/* Without the innermost functions of the runtime, as in heap profiles. */
	const struct gospect_stack *stack;
};

/*
 * An estimate of what was allocated. It comes from the allocations that the program's heap profile
 * samples, one in runtime.MemProfileRate bytes, scaled as runtime/pprof does. The errors have 95 %
 * confidence. 0 means exact, as with a rate of 1; an `objects_error` of 0 may also mean that
 * nothing was sampled.
 */
struct gospect_allocations {
	uint64_t bytes;
	uint64_t objects;
	uint64_t bytes_error;
	uint64_t objects_error;
	uint64_t samples;
	size_t stack_count;
	const struct gospect_allocation_stack *const *stacks; /* most bytes first */
};

/* A request. Its times, except elapsed_ns, are sums over its goroutines. */
struct gospect_request {
	const char *name;   /* the label's value, or the function */
	const char *per;    /* the value of the label `per`, "" when it has none; or the function */
	uint64_t goroutine; /* the first one that worked for it */
	uint64_t goroutines; /* that worked for it */
	uint64_t begin_ns;   /* since the trace began */
	uint64_t end_ns;
	uint64_t elapsed_ns; /* the time in which at least one goroutine worked for it */
	uint64_t total_ns;   /* the sum of the next four */
	uint64_t running_ns;
	uint64_t runnable_ns;
	uint64_t syscall_ns;
	uint64_t waiting_ns;
	uint64_t uncertain_ns; /* this part of running_ns may lie before or after the request */
	uint32_t is_cut;       /* 1: it was in progress when the trace began or ended */
	uint32_t reserved;
	size_t place_count;
	const struct gospect_request_place *const *places; /* longest first */
	/* With GOSPECT_REQUESTS_PATHS: its critical path in the order of time, without gaps. */
	size_t path_count;
	const struct gospect_path_segment *const *path;
	/* Facts about the HTTP or gRPC request; "" when not known. The strings come from the
	 * target. */
	const char *method;
	const char *url_path; /* without the query */
	const char *route;    /* the pattern of the mux that matched */
	const char *peer;     /* address and port */
	const char *trace_id; /* of its W3C traceparent */
	const char *span_id;  /* of the same: the span of the caller */
	uint32_t status;      /* of the response; of gRPC: its code, whose 0 is OK */
	uint32_t has_status;  /* 1: `status` is known */
	size_t part_count;
	const struct gospect_request_part *parts;       /* longest first */
	size_t running_count;                           /* 0: the trace has no CPU samples of it */
	const struct gospect_running_function *running; /* longest first */
	const char *status_name; /* "404"; of gRPC "NotFound"; "": not known */
	/* With GOSPECT_REQUESTS_ALLOC; else NULL. */
	const struct gospect_allocations *allocated;
};

/* How many there are. */
GOSPECT_API size_t gospect_requests_count(const struct gospect_requests *requests);

/* Calls request() for each request, the slowest first. It ends early, without an error, when
 * request() returns anything but 0. The request is valid during the call. The only error is
 * GOSPECT_ERROR_NO_MEMORY. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_each(const struct gospect_requests *requests,
		      int (*request)(void *arg, const struct gospect_request *request), void *arg);

/* The requests with one value of `per`. Requests with is_cut are counted in `cut` only. */
struct gospect_request_group {
	const char *name; /* that value; with `root`: the function */
	uint64_t count;
	uint64_t cut;
	uint64_t p50_ns; /* percentiles of elapsed_ns */
	uint64_t p90_ns;
	uint64_t p99_ns;
	uint64_t max_ns;
	uint64_t total_ns;
	uint64_t running_ns;
	uint64_t runnable_ns;
	uint64_t syscall_ns;
	uint64_t waiting_ns;
	size_t running_count;
	const struct gospect_running_function *running; /* longest first */
	/* With GOSPECT_REQUESTS_ALLOC: what complete requests allocated, without stacks; else NULL.
	 * */
	const struct gospect_allocations *allocated;
};

/* Calls group() for each group, as gospect_requests_each(). The group with the largest p99_ns comes
 * first. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_groups(const struct gospect_requests *requests,
			int (*group)(void *arg, const struct gospect_request_group *group),
			void *arg);

/*
 * Returns all requests as one profile: their time by state, wait reason and stack, exact to the
 * nanosecond. Running time has stacks if the trace has CPU samples. Each sample has the label
 * `request`, which is the request's name, and `method`, `route` and `status` if they are known.
 * With GOSPECT_REQUESTS_PATHS, GOSPECT_HTML shows the critical paths of the slowest. The profile
 * may outlive the requests.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_profile(const struct gospect_requests *requests, struct gospect_profile **ret);

/*
 * Returns the waits of all requests as one profile. The stack of each wait continues with `[ended
 * by]` and the stack of the goroutine that ended it, or with `[timer]`, `[network poller]` or
 * `[runtime]`.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_wakers(const struct gospect_requests *requests, struct gospect_profile **ret);

/*
 * With GOSPECT_REQUESTS_ALLOC: returns what all requests allocated as one profile. Its types are
 * alloc_objects and alloc_space. Its samples have the labels of gospect_requests_profile().
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_allocations(const struct gospect_requests *requests, struct gospect_profile **ret);

/* What was allocated in the whole trace, in requests and elsewhere, without stacks. */
GOSPECT_API void gospect_requests_allocated(const struct gospect_requests *requests,
					    struct gospect_allocations *ret);

GOSPECT_END

#endif
