/* The profiles that the Go runtime keeps by itself, read from outside. The program is not stopped,
 * and none of its code is called. */
#ifndef GOSPECT_HEAP_H
#define GOSPECT_HEAP_H

#include <gospect/profile.h>
#include <gospect/write.h>

GOSPECT_BEGIN

enum gospect_heap_kind {
	GOSPECT_HEAP = 0, /* memory in use, by the stacks that allocated it */
	GOSPECT_ALLOCS =
		1, /* the same profile; the default value is what was allocated since the start */
	GOSPECT_BLOCK = 2, /* time blocked; empty unless runtime.SetBlockProfileRate was called */
	GOSPECT_MUTEX =
		3, /* time that others waited for a mutex; runtime.SetMutexProfileFraction */
	GOSPECT_GOROUTINE = 4,    /* all goroutines, by stack and labels */
	GOSPECT_THREADCREATE = 5, /* the stacks that created threads */
	/* Goroutines that nothing can wake any more, as gospect_leaks_find() finds them; for every
	 * Go version. */
	GOSPECT_GOROUTINELEAK = 6,
};

struct gospect_heap_options {
	size_t size;       /* of this structure */
	uint32_t kind;     /* an enum gospect_heap_kind */
	uint32_t reserved; /* 0 */
	/* For GOSPECT_HEAP and GOSPECT_ALLOCS: only what is allocated in the next so many seconds,
	 * or until the call is cancelled. At most a day. 0: the profile as it is now. */
	double live;
};

/*
 * The profile has the types, values and labels that runtime/pprof writes (debug=0), scaled in the
 * same way. In its samples, count and wall_ns are objects and bytes, or events and their time;
 * gospect_profile_info.unit says which. As in the runtime's own, a heap profile shows the state at
 * the second to last collection. Takes 1 ms for 1,000 stacks.
 *
 * GOSPECT_ERROR_FAILED: the program keeps no such profile; the message has the reason. Or the
 * profile changed during each read.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_heap_profile(struct gospect_target *target, const struct gospect_heap_options *options,
		     struct gospect_profile **ret);

/*
 * Writes the text of runtime/pprof with debug=1: unscaled counters, addresses, and a line for each
 * frame. `kind` is an enum gospect_heap_kind. A heap profile ends with runtime.MemStats; tiny
 * allocations that a P has not reported yet are missing there.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_heap_write_text(struct gospect_target *target, uint32_t kind, struct gospect_sink sink);

GOSPECT_END

#endif
