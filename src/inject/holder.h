/*
 * Holds a program that was just started, at the point where its runtime is set up and none of its
 * own code has run.
 *
 * A separate process does this: the holder. gospect itself may give up its privilege meanwhile. The
 * holder traces the child (ptrace) from before exec on, and parses nothing. After the exec, gospect
 * finds out which program it is, and tells the holder at which address to hold it. The holder stops
 * the program there, replaces the instruction by a jump to itself (two bytes), and detaches. The
 * thread then loops, so that gospect can install the agent or take samples. To release the program,
 * the holder stops the thread and restores the instruction.
 *
 * Only the first thread of the process comes to that address. If the program is not Go, it runs on,
 * and the holder waits for the next exec. When gospect ends in any way, the holder releases the
 * program. A program that the holder cannot trace is not held.
 */
#ifndef INJECT_HOLDER_H
#define INJECT_HOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* The function in whose first instruction a program is held: runtime.main calls it once, when the
 * runtime has a second thread, before any init() of the program. */
#define HOLDER_FUNCTION "runtime.gcenable"

struct holder;

/* For a child process that has not called exec yet. ERROR_DENIED, ERROR_UNSUPPORTED: it is not
 * held, and nothing was changed. */
struct error *holder_start(pid_t child, struct holder **ret) must_check;

/* Waits for at most `ms` until the child has called exec and is stopped at its first instruction.
 * */
bool holder_await_exec(struct holder *h, int ms);
/* Lets the program run on without holding it. */
void holder_pass(struct holder *h);
/* It runs on to this address, and is held there: true. Waits for `ms` at most; false: it ended,
 * called exec, or was let go. */
bool holder_hold(struct holder *h, uint64_t address, int ms);
/* Resumes it from wherever it is, untraced. NULL is allowed. */
void holder_release(struct holder *h);

static inline void cleanup_holder(struct holder **h)
{
	holder_release(*h);
}
#define _cleanup_holder_ __attribute__((cleanup(cleanup_holder)))

#endif
