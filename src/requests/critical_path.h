/*
 * The critical path of a request: for each moment of it, the goroutine whose work the request
 * needed then.
 *
 * While the request's goroutine runs, can run or is in a system call, that is the goroutine itself.
 * While it waits, it is the goroutine that ends the wait: for the same time, what that one did. If
 * that one waits meanwhile, it is the goroutine that ends that wait, and so on. A wait that no
 * goroutine ends, as for a timer or the network, is on the path as it is. Before a goroutine was
 * created, its creator is on the path.
 */
#ifndef REQUESTS_CRITICAL_PATH_H
#define REQUESTS_CRITICAL_PATH_H

#include "requests/history.h"

struct path_segment {
	uint64_t begin;
	uint64_t end;
	uint64_t g;
	enum trace_status state; /* 0: the trace does not say what it did */
	uint32_t reason;         /* of a wait */
	uint32_t start;          /* the goroutine's start function */
	uint32_t stack; /* where it waits or is in a system call; of a goroutine that runs, where
			   it got to */
	uint32_t depth; /* waits between it and the request's goroutine */
};

struct critical_path {
	struct path_segment *segments; /* in the order of time, without gaps */
	size_t count;
	size_t capacity;
	bool is_cut; /* there are more than are kept: the waits are on it as they are */
};

/* Of goroutine g within this time. */
struct error *critical_path_find(const struct history *h, uint64_t g, uint64_t begin, uint64_t end,
				 struct critical_path *ret) must_check;
void critical_path_release(struct critical_path *path);

#endif
