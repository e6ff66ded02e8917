/* Holds a program that was just started, before its first line runs. */
#ifndef GOSPECT_HOLD_H
#define GOSPECT_HOLD_H

#include <gospect/error.h>

GOSPECT_BEGIN

/*
 * A hold stops a child process when its Go runtime is set up, before any code of the program runs.
 * A trace or a recording that begins then misses nothing.
 *
 *	1. fork(). The child waits for a byte from a pipe, and then calls exec.
 *	2. gospect_hold_start(child, &hold). Write the byte.
 *	3. options.hold = hold;
 *	   gospect_target_open_process(child, &options, &target) returns when the child is held.
 *	4. gospect_trace_begin(trace, target, NULL), then gospect_hold_release(hold). Or call
 *	   gospect_record(), and release the child when it calls progress() first.
 */
struct gospect_hold;

/* Holds a child of this process that has not called exec yet. A forked process traces the child
 * (ptrace) until the child is held. GOSPECT_ERROR_DENIED, _UNSUPPORTED: the child is not held, and
 * nothing is changed. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *gospect_hold_start(int child,
									struct gospect_hold **ret);

/* Lets the child run on, and stops tracing it. The end of this process does the same. Takes NULL as
 * well. */
GOSPECT_API void gospect_hold_release(struct gospect_hold *hold);

GOSPECT_END

#endif
