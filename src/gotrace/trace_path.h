/* The critical path of a request (requests/critical_path.h), for a format that shows it. */
#ifndef GOTRACE_TRACE_PATH_H
#define GOTRACE_TRACE_PATH_H

#include <stddef.h>
#include <stdint.h>

#include "gotrace/event.h"

struct trace_path_segment {
	uint64_t begin;
	uint64_t end;
	uint64_t g;
	uint64_t start_pc;       /* of its start function; 0: not known */
	enum trace_status state; /* 0: not known */
	const char *reason;      /* of a wait; "" */
	uint32_t stack;          /* as in steps; 0: not known */
	/* The step by which the goroutine of the segment before woke or created this one: its
	 * number among all OP_GO_CREATE and OP_GO_UNBLOCK of goroutines. 0: there is no such step.
	 */
	uint64_t wake;
};

struct trace_path {
	const char *request; /* "GET /users/7", or the function */
	uint64_t g;
	uint64_t begin;
	uint64_t end;
	const struct trace_path_segment *segments;
	size_t count;
};

#endif
