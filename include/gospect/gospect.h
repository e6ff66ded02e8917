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
 * Errors. A function that can fail returns a struct gospect_error *, NULL for success, and then
 * sets what its `ret` points to; when it fails, it leaves that alone. The caller destroys the
 * error.
 *
 * Ownership. Every _open, _take, _read and gospect_record() has a _close or _destroy, which takes
 * NULL as well. An object that was made from a target is destroyed before the target is closed; a
 * profile is not tied to its target. Strings and structures that the library gives out belong to
 * the object that they came from. What the caller passes in has to stay only until the function
 * returns, unless its comment says otherwise.
 *
 * Options. A structure of options begins with its size, `{.size = sizeof(options)}`; the other
 * members may be 0, which is the default. NULL stands for all defaults. A later version may append
 * members: an older program continues to work with a newer library. An older library answers
 * GOSPECT_ERROR_INVALID to a newer program that asks for something unknown.
 * A structure that the library gives out is reached by a pointer, and may grow at its end, too:
 * never copy one by its size, nor index an array of them but by the pointers that are given.
 *
 * Side effects. But for a trace (gospect/trace.h), nothing is written to the target and it is never
 * stopped. In the process that uses it the library prints nothing, never exits, and changes no
 * signal's action, limit, priority, umask or environment, unless gospect_process_permit() allows it
 * to, or gospect_confine() is called. It opens files of /proc, programs and libraries, and perf
 * events; all are closed on exec. What is stopped, held or not trusted is left to processes that it
 * forks, and waits for.
 *
 * Text. Strings are UTF-8 as far as the target's are. They come from the target: a program that
 * prints them on a terminal has to escape what is not printable. Times are in nanoseconds,
 *durations that the caller gives in seconds.
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
