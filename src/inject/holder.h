/*
 * Holds a program that was just started at the one place where its runtime is set up and none of
 * its own code has run.
 *
 * A process of its own does it, the holder, for gospect may give up its privilege meanwhile. It
 * traces the child (ptrace) from before exec on and parses nothing: when the child has called exec,
 * gospect looks what program that is, and says at which address it is to be held. There the holder
 * has it stop, and puts a jump to itself (two bytes) in the place of the instruction. Then it is
 * untraced: the thread goes round, so that the agent can be put in, or samples be taken. Letting it
 * go is to put the instruction back, while the thread is stopped.
 *
 * The place is one to which only the process's first thread comes. A program that exec has made of
 * something else than Go runs on, and the holder waits for the next exec. When gospect ends,
 * however it ends, the holder lets go; a program that the holder cannot trace is not held.
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

/* Waits until the child has called exec, and stands where it begins: for `ms` at most. */
bool holder_await_exec(struct holder *h, int ms);
/* It is not to be held: it runs on. */
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
