/* The process that uses libgospect: what the library may do to it, and how to cancel a call. */
#ifndef GOSPECT_PROCESS_H
#define GOSPECT_PROCESS_H

#include <gospect/api.h>

GOSPECT_BEGIN

/* The version of the library that is in use: "0.1.0". */
GOSPECT_API const char *gospect_version(void);

/* Side effects on the whole process, or on the calling thread. Without a permit there are none. */
enum gospect_permit {
	/*
	 * gospect_record() and gospect_snapshot_take() may raise the soft limit of open files
	 * (RLIMIT_NOFILE) up to the hard one, which perf events of many threads need, and, before
	 * Linux 5.11, the limit of locked memory. Without it some running threads may not be
	 * sampled; a remark says so.
	 */
	GOSPECT_PERMIT_LIMITS = 1,
	/*
	 * gospect_record() with a budget of at most 5 % may give the calling thread a real-time
	 * priority (SCHED_FIFO 1) while it records, where the process may do that. Without it
	 * samples come late on a machine that is busy. A trace may give a thread of its own that
	 * priority, and the calling thread a lower or a higher one than it has. Without it events
	 * may be lost there.
	 */
	GOSPECT_PERMIT_PRIORITY = 2,
	/*
	 * Programs' files may be mapped into memory instead of being read into it, which saves
	 * memory of their size. A program that permits it needs a SIGBUS handler that calls
	 * gospect_sigbus(): a file that is truncated while it is mapped raises it.
	 */
	GOSPECT_PERMIT_MAPPING = 4,
};

/* Permits these (a sum) from now on, and forbids the others; for targets that are opened later. Any
 * thread may call it. */
GOSPECT_API void gospect_process_permit(uint32_t permits);

/* For a handler of SIGBUS, with its si_addr: 1 when the fault was in a mapped file of the library.
 * The instruction can go on then, and the call that it belongs to fails with GOSPECT_ERROR_CORRUPT.
 * Async-signal-safe. */
GOSPECT_API int gospect_sigbus(const void *address);

/*
 * Cancelling. A cancel object is passed in options and outlives what it is passed to: a target, or
 * a call. Several may share one. Once it is requested, a recording ends within 50 ms and gives what
 * it has; any other call fails with GOSPECT_ERROR_CANCELLED, or, being nearly done, succeeds. It
 * stays requested until it is reset.
 *
 * What was recorded is written although its target is cancelled. A sink cancels the writing: its
 * write() returns ECANCELED. gospect_profile_read() is not cancelled, but
 * gospect_recorded_profile() is, which reads the same files.
 */
struct gospect_cancel;

/* NULL: there is no memory. */
GOSPECT_API struct gospect_cancel *gospect_cancel_create(void);
GOSPECT_API void gospect_cancel_destroy(struct gospect_cancel *cancel);
/* From any thread; async-signal-safe. */
GOSPECT_API void gospect_cancel_request(struct gospect_cancel *cancel);
GOSPECT_API int gospect_cancel_is_requested(const struct gospect_cancel *cancel);
/* While no call that uses it is under way. */
GOSPECT_API void gospect_cancel_reset(struct gospect_cancel *cancel);

GOSPECT_END

#endif
