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
	/* All requests that came with one trace id (W3C traceparent) are one, named by it. Others
	 * are left out. */
	GOSPECT_REQUESTS_BY_TRACE = 4,
	/* Requests have what was allocated for them. Only traces that were made with
	 * GOSPECT_TRACE_ALLOC say it; about any other there is a remark. */
	GOSPECT_REQUESTS_ALLOC = 8,
};

struct gospect_requests_options {
	size_t size; /* of this structure */
	/*
	 * All goroutines that have the same value of this label (runtime/pprof) work for one
	 * request. NULL: each call of a function that matches `root` is a request.
	 */
	const char *label;
	/* A POSIX extended regular expression for names of functions. NULL: the handlers of
	 * net/http and gRPC. A trace that was made with the same `root` has all calls of these
	 * functions. Any other trace has the calls that block, enter a system call or are
	 * preempted. */
	const char *root;
	const char *per; /* requests are grouped by this label; NULL: all are one group */
	/* How messages name the trace; NULL: "the trace". */
	const char *name;
	/* Called with one line for each thing that the trace does not show, and why. NULL: no
	 * callback. */
	void (*remark)(void *arg, const char *line);
	void *arg; /* of remark() */
	/* Stays until the call is over. NULL: it cannot be cancelled. */
	const struct gospect_cancel *cancel;
	uint32_t flags;    /* a sum of enum gospect_requests_flags */
	uint32_t reserved; /* 0 */
	/* A POSIX extended regular expression: only requests whose route matches, or, of those
	 * without a route, whose path does. NULL: all. */
	const char *route;
	uint64_t slower_ns; /* only requests that took longer than this */
	/* A POSIX extended regular expression: calls of these functions are parts of a request, if
	 * the trace was made with them as `root`; and calls of database/sql and of the clients of
	 * net/http and gRPC. NULL: these alone. */
	const char *part;
	uint64_t faster_ns; /* only whole requests that took no longer than this; 0: all */
};

struct gospect_requests;

/*
 * From the bytes of a trace, which may go then: gospect's or Go's own, in Go's format. A live
 * target is traced in memory first:
 *
 *	options.flags = GOSPECT_TRACE_IN_MEMORY;
 *	gospect_trace_create(&options, &trace);
 *	gospect_trace_begin(trace, target, NULL);
 *	gospect_trace_run(trace);
 *	bytes = gospect_trace_bytes(trace, &size);
 *	gospect_requests_read(bytes, size, &how, &requests);
 *
 * GOSPECT_ERROR_CORRUPT: they are no trace. GOSPECT_ERROR_FAILED: no request is in it, or none that
 * .route, .slower_ns and .faster_ns permit.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_read(const void *bytes, size_t size,
		      const struct gospect_requests_options *options,
		      struct gospect_requests **ret);

/* Takes NULL as well. */
GOSPECT_API void gospect_requests_destroy(struct gospect_requests *requests);

/* Where a request was while it was in one state, for one reason. */
struct gospect_request_place {
	uint64_t ns;
	uint64_t count; /* times */
	enum gospect_state state;
	uint32_t reserved;
	const char *wait_reason;           /* "" when it did not wait */
	const struct gospect_stack *stack; /* without addresses */
	/* The longest that a goroutine had been there when the trace began, at least; 0: not
	 * known. */
	uint64_t waited_ns;
	/* Who ended the waits, longest first; without those that did not end in the trace. */
	size_t waker_count;
	const struct gospect_waker *const *wakers;
	/* Of a running one, which comes from `count` CPU samples: `ns` is right within this, 95
	 * times of 100. */
	uint64_t error_ns;
};

/* How long functions ran, themselves, without what they called: CPU samples share running_ns. */
struct gospect_running_function {
	const char *function;
	uint64_t samples;
	uint64_t ns;
	uint64_t error_ns; /* as in struct gospect_request_place */
};

/*
 * A part of a critical path. While the request's goroutine waits, the goroutine that ends the wait
 * is on the path, with what it did meanwhile. A wait that no goroutine ends is on the path as it
 * is.
 */
struct gospect_path_segment {
	uint64_t begin_ns; /* since the trace began */
	uint64_t end_ns;
	uint64_t goroutine;
	const char *function;    /* that the goroutine began in; "" when it is not known */
	const char *wait_reason; /* "" when it did not wait */
	enum gospect_state state;
	uint32_t is_unknown; /* 1: the trace does not have what the goroutine did then */
	uint32_t depth;      /* 0: the request's own goroutine; else waits between them */
	uint32_t reserved;
	/* Where it waited or was in a system call; where a running goroutine got to. */
	const struct gospect_stack *stack;
};

/* The calls of a function that the goroutine of a request made during it. */
struct gospect_request_part {
	const char *function;
	uint64_t ns; /* of calls within one another the outermost counts */
	uint64_t count;
};

struct gospect_allocation_stack {
	uint64_t bytes;
	uint64_t objects;
	uint64_t bytes_error;
	uint64_t objects_error;
	uint64_t samples;
	/* Without the runtime's functions at its beginning, as in heap profiles. */
	const struct gospect_stack *stack;
};

/*
 * What was allocated: an estimate from the allocations that the program's heap profile samples, one
 * in runtime.MemProfileRate bytes, scaled as runtime/pprof does. The true values are at most
 * `bytes_error` and `objects_error` away from it (95 % confidence); 0: it is exact, as with a rate
 * of 1, or, of objects, nothing was sampled.
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

/* Times of all goroutines added up, except elapsed_ns: one waits while another runs. */
struct gospect_request {
	const char *name;   /* the label's value, or the function */
	const char *per;    /* the value of the other label, "" when it has none; or the function */
	uint64_t goroutine; /* that it was seen in first */
	uint64_t goroutines; /* that worked for it */
	uint64_t begin_ns;   /* since the trace began */
	uint64_t end_ns;
	uint64_t elapsed_ns; /* in which one goroutine at least was at work on it */
	uint64_t total_ns;   /* the sum of the next four */
	uint64_t running_ns;
	uint64_t runnable_ns;
	uint64_t syscall_ns;
	uint64_t waiting_ns;
	uint64_t uncertain_ns; /* of running_ns: a part may lie before or behind the request */
	uint32_t is_cut;       /* 1: it was under way when the trace began or ended */
	uint32_t reserved;
	size_t place_count;
	const struct gospect_request_place *const *places; /* longest first */
	/* Its critical path in the order of time, without gaps: with GOSPECT_REQUESTS_PATHS. */
	size_t path_count;
	const struct gospect_path_segment *const *path;
	/* What is known of the HTTP request that it is, or that it is a part of; "" where it is not
	 * known. The bytes are the target's. */
	const char *method;
	const char *url_path; /* without the query */
	const char *route;    /* the pattern of the mux that matched */
	const char *peer;     /* address and port */
	const char *trace_id; /* of the W3C traceparent that it came with, as its span_id: the */
	const char *span_id;  /* caller's span */
	uint32_t status;      /* of the response; of gRPC: its code, whose 0 is OK */
	uint32_t has_status;  /* 1: that is known */
	size_t part_count;
	const struct gospect_request_part *parts;       /* longest first */
	size_t running_count;                           /* 0: the trace has no CPU sample of it */
	const struct gospect_running_function *running; /* longest first */
	const char *status_name; /* "404"; of gRPC "NotFound"; "": not known */
	/* With GOSPECT_REQUESTS_ALLOC; else NULL. */
	const struct gospect_allocations *allocated;
};

/* How many there are. */
GOSPECT_API size_t gospect_requests_count(const struct gospect_requests *requests);

/* Hands over each, the slowest first, until request() returns anything but 0, which is no error.
 * Its argument is valid during the call. The only error is GOSPECT_ERROR_NO_MEMORY. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_each(const struct gospect_requests *requests,
		      int (*request)(void *arg, const struct gospect_request *request), void *arg);

/* Requests that have one value of `per`; requests that were cut are in `cut` alone. */
struct gospect_request_group {
	const char *name; /* that value; with `root`: the function */
	uint64_t count;
	uint64_t cut;
	uint64_t p50_ns; /* so many percent took no longer (elapsed_ns) */
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
	/* By requests that were not cut, without stacks; with GOSPECT_REQUESTS_ALLOC, else NULL. */
	const struct gospect_allocations *allocated;
};

/* Likewise, the group with the slowest requests (p99_ns) first. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_groups(const struct gospect_requests *requests,
			int (*group)(void *arg, const struct gospect_request_group *group),
			void *arg);

/*
 * All requests as one profile: their time by state, wait reason and stack, exact to the nanosecond;
 * where they ran, by the CPU samples, if the trace has some.
 * Each sample has the label `request`, which is the request's name, and
 * `method`, `route` and `status`, where they are known. It may outlive the requests.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_profile(const struct gospect_requests *requests, struct gospect_profile **ret);

/*
 * Likewise, of the time in which they waited: the stack of each wait goes on with `[ended by]` and
 * the stack of the goroutine that ended it, or with `[timer]`, `[network poller]` or `[runtime]`.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_wakers(const struct gospect_requests *requests, struct gospect_profile **ret);

/*
 * Likewise, of what was allocated, with GOSPECT_REQUESTS_ALLOC: a profile of memory with the types
 * alloc_objects and alloc_space, and the same labels.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_requests_allocations(const struct gospect_requests *requests, struct gospect_profile **ret);

/* What was allocated in the whole trace, in requests and elsewhere, without stacks. */
GOSPECT_API void gospect_requests_allocated(const struct gospect_requests *requests,
					    struct gospect_allocations *ret);

GOSPECT_END

#endif
