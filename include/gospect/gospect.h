/*
 * libgospect: what a running Go program does, seen from outside.
 *
 *	struct gospect_target *target = NULL;
 *	struct gospect_snapshot *snapshot = NULL;
 *	struct gospect_error *err = gospect_target_open_process(4711, NULL, &target);
 *
 *	if (!err)
 *		err = gospect_snapshot_take(target, NULL, &snapshot);
 *	if (!err)
 *		err = gospect_snapshot_write(snapshot, GOSPECT_TEXT, 0, gospect_sink_fd(1));
 *	if (err)
 *		fprintf(stderr, "%s\n", gospect_error_message(err));
 *	gospect_error_destroy(err);
 *	gospect_snapshot_destroy(snapshot);
 *	gospect_target_close(target);
 *
 * Threads. A target, and every object made from it, is used by one thread at a time. Different
 * targets may be used by different threads at the same time. Two functions may be called by any
 * thread at any time, and by a signal handler: gospect_cancel_request() and gospect_sigbus().
 *
 * Errors. A function that can fail returns a struct gospect_error *. NULL means success: the
 * function has set what its `ret` points to. After an error, that is unchanged. The caller destroys
 * the error.
 *
 * Ownership. Every _open, _take, _read and gospect_record() has a _close or _destroy, which also
 * accepts NULL. Destroy an object that was made from a target before you close the target. A
 * profile may outlive its target. Strings and structures that the library returns belong to the
 * object that they came from. An argument is needed only until the function returns, unless its
 * comment says otherwise.
 *
 * Options. A structure of options begins with its size, `{.size = sizeof(options)}`. 0 in any other
 * member is the default. NULL instead of the structure means all defaults. A later version may
 * append members: an older program continues to work with a newer library. An older library returns
 * GOSPECT_ERROR_INVALID when a newer program asks for something that it does not know. Structures
 * that the library returns may grow, too. Use them through the pointers that it returns: do not
 * copy one by its size, and do not index them as an array.
 *
 * Side effects on the target. Only these write to it or stop it: a trace (gospect/trace.h), a
 * memory snapshot (gospect/memory_snapshot.h), a hold (gospect/hold.h), and
 * gospect_doctor_process() when it removes the agent of a killed trace.
 *
 * Side effects on the process that uses the library. It prints nothing, never exits, and changes no
 * signal action, limit, priority, umask or environment, unless gospect_process_permit() allows it,
 * or gospect_confine() is called. It opens files of /proc, programs and libraries, and perf events;
 * all are closed on exec. To stop or hold a target, and to read processes that it does not trust,
 * it forks child processes and waits for them.
 *
 * Text. Strings come from the target, and are UTF-8 if the target's are. Escape what is not
 * printable before you print them on a terminal. Times are in nanoseconds. Durations in options are
 * in seconds.
 */
#ifndef GOSPECT_GOSPECT_H
#define GOSPECT_GOSPECT_H

#include <gospect/confine.h>
#include <gospect/doctor.h>
#include <gospect/error.h>
#include <gospect/footprint.h>
#include <gospect/heap.h>
#include <gospect/hold.h>
#include <gospect/leaks.h>
#include <gospect/machine.h>
#include <gospect/process.h>
#include <gospect/processes.h>
#include <gospect/profile.h>
#include <gospect/recorded.h>
#include <gospect/requests.h>
#include <gospect/retained.h>
#include <gospect/snapshot.h>
#include <gospect/stack_memory.h>
#include <gospect/symbolize.h>
#include <gospect/target.h>
#include <gospect/top.h>
#include <gospect/trace.h>
#include <gospect/unwind_info.h>
#include <gospect/waits.h>
#include <gospect/watch.h>
#include <gospect/why.h>
#include <gospect/write.h>

#endif
