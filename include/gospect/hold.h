/* A program that was just started, held before its first line. */
#ifndef GOSPECT_HOLD_H
#define GOSPECT_HOLD_H

#include <gospect/error.h>

GOSPECT_BEGIN

/*
 * A child stands at the one place where it is whole and has not begun: the runtime is set up, and
 * no code of the program's own has run. So nothing of what it does is missed.
 *
 *	fork(); the child waits for a byte from a pipe before it calls exec;
 *	gospect_hold_start(child, &hold);       the byte is written;
 *	options.hold = hold;
 *	gospect_target_open_process(child, &options, &target);
 *	gospect_trace_begin(trace, target);     or a recording, whose progress() is called then
 *	gospect_hold_release(hold);
 */
struct gospect_hold;

/* Of a child of this process that has not called exec yet. A process is forked that traces it
 * (ptrace) until it stands there. GOSPECT_ERROR_DENIED, _UNSUPPORTED: it is not held, and nothing
 * was changed. */
GOSPECT_API GOSPECT_MUST_CHECK struct gospect_error *gospect_hold_start(int child,
									struct gospect_hold **ret);

/* It runs on from wherever it is, and is traced by nobody. It does so when this process ends, too.
 * Takes NULL as well. */
GOSPECT_API void gospect_hold_release(struct gospect_hold *hold);

GOSPECT_END

#endif
