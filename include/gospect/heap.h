/* The profiles that the Go runtime keeps by itself, read from outside: nothing in the program is
 * called, and it is not stopped. */
#ifndef GOSPECT_HEAP_H
#define GOSPECT_HEAP_H

#include <gospect/profile.h>
#include <gospect/write.h>

GOSPECT_BEGIN

enum gospect_heap_kind {
	GOSPECT_HEAP = 0,   /* memory in use, by the stacks that allocated it */
	GOSPECT_ALLOCS = 1, /* the same profile; shown by what was allocated since the start */
	GOSPECT_BLOCK = 2,  /* time blocked; empty unless runtime.SetBlockProfileRate was called */
	GOSPECT_MUTEX =
		3, /* time that others waited for a mutex; runtime.SetMutexProfileFraction */
	GOSPECT_GOROUTINE = 4,    /* all goroutines, by stack and labels */
	GOSPECT_THREADCREATE = 5, /* the stacks that created threads */
	/* Goroutines that nothing can wake any more, as gospect_leaks_find() finds them; for all
	 * versions of Go. */
	GOSPECT_GOROUTINELEAK = 6,
};

struct gospect_heap_options {
	size_t size;       /* of this structure */
	uint32_t kind;     /* an enum gospect_heap_kind */
	uint32_t reserved; /* 0 */
	/* For GOSPECT_HEAP and GOSPECT_ALLOCS: what is allocated in this many seconds from now on,
	 * or until the call is cancelled. At most a day. 0: the profile as it is now. */
	double live;
};

/*
 * The profile has the types, values and labels that runtime/pprof writes (debug=0), scaled in the
 * same way. count and wall_ns of its gospect_samples are the objects and their bytes, or the events
 * and their time: gospect_profile_info.unit. A heap profile is that of the last collection but one,
 * as the runtime's own. Takes 1 ms for 1,000 stacks.
 *
 * GOSPECT_ERROR_FAILED: the program keeps no such profile, and why; or it changed during each read.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_heap_profile(struct gospect_target *target, const struct gospect_heap_options *options,
		     struct gospect_profile **ret);

/*
 * Writes the text that runtime/pprof writes of this profile with debug=1: counters that are not
 * scaled, addresses, and a line for each frame. `kind` is an enum gospect_heap_kind. A heap profile
 * ends with runtime.MemStats, in which tiny allocations that a P has not reported yet are missing.
 */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *
gospect_heap_write_text(struct gospect_target *target, uint32_t kind, struct gospect_sink sink);

GOSPECT_END

#endif
