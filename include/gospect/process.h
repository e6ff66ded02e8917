/* The process that uses libgospect: what the library may do to it, and how to cancel a call. */
#ifndef GOSPECT_PROCESS_H
#define GOSPECT_PROCESS_H

#include <gospect/api.h>

GOSPECT_BEGIN

/* The version of the library that is in use: "0.1.0". */
GOSPECT_API const char *gospect_version(void);

/* Permitted side effects on the process, or on the calling thread. Without a permit there are none.
 * */
enum gospect_permit {
	/*
	 * gospect_record() and gospect_snapshot_take() may raise the soft limit of open files
	 * (RLIMIT_NOFILE) to the hard limit, because perf events need a file for each thread.
	 * Before Linux 5.11 they may also raise the limit of locked memory. Without this permit,
	 * some running threads may not be sampled; a remark says so.
	 */
	GOSPECT_PERMIT_LIMITS = 1,
	/*
	 * gospect_record() with a budget of at most 5 % may give the calling thread a real-time
	 * priority (SCHED_FIFO 1) while it records. Without it, samples come late on a busy
	 * machine. A trace may give that priority to a thread of its own, and change that of the
	 * calling thread. Without it, a trace may lose events on a busy machine.
	 */
	GOSPECT_PERMIT_PRIORITY = 2,
	/*
	 * The library may map files of programs instead of reading them, which saves memory of
	 * their size. If such a file is truncated, the kernel raises SIGBUS: a program that gives
	 * this permit needs a handler that calls gospect_sigbus().
	 */
	GOSPECT_PERMIT_MAPPING = 4,
};

/* Gives these permits (a sum) and takes back the others, for targets that are opened later. Any
 * thread may call it. */
GOSPECT_API void gospect_process_permit(uint32_t permits);

/* For a handler of SIGBUS, with its si_addr. Returns 1 if the fault was in a file that the library
 * has mapped: the handler may then return, and the call of the library fails with
 * GOSPECT_ERROR_CORRUPT. Async-signal-safe. */
GOSPECT_API int gospect_sigbus(const void *address);

/*
 * Cancelling. A cancel object is passed in options, and must outlive the target or the call that it
 * is passed to. Several may share one. After gospect_cancel_request(), a recording ends within 50
 * ms and returns what it has. Any other call fails with GOSPECT_ERROR_CANCELLED, or succeeds if it
 * is nearly done. The request stays until gospect_cancel_reset().
 *
 * A request does not stop the writing of a profile: for that, the write() of a sink returns
 * ECANCELED. gospect_profile_read() cannot be cancelled; gospect_recorded_profile(), which reads
 * the same files, can.
 */
struct gospect_cancel;

/* Returns NULL if memory is short. */
GOSPECT_API struct gospect_cancel *gospect_cancel_create(void);
GOSPECT_API void gospect_cancel_destroy(struct gospect_cancel *cancel);
/* From any thread; async-signal-safe. */
GOSPECT_API void gospect_cancel_request(struct gospect_cancel *cancel);
GOSPECT_API int gospect_cancel_is_requested(const struct gospect_cancel *cancel);
/* Call it only while no call uses the object. */
GOSPECT_API void gospect_cancel_reset(struct gospect_cancel *cancel);

GOSPECT_END

#endif
