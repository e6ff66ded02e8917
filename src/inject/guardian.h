/*
 * The guardian takes the agent out when the surgeon cannot. It is a separate process, forked before
 * the target is touched. It sleeps until the surgeon has ended, in whichever way, without having
 * left the target clean; then it takes the agent out. As long as the target lives and cannot be
 * stopped - it is frozen, a debugger has it, it waits for a disk - it tries again.
 *
 * It has a session of its own, ignores all signals, and has nothing open but what it needs to reach
 * the target, so readers of gospect's output see its end. It does the same for a surgeon that
 * SIGSTOP has stopped while it held the target's threads: that one goes on until it has let go of
 * them. And it gives back priorities that gospect had lent to threads of the target
 * (inject/priority.h).
 *
 * There is one for the process.
 */
#ifndef INJECT_GUARDIAN_H
#define INJECT_GUARDIAN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "inject/surgeon.h"

/* Forks it. It goes by what the surgeon knows now, and by its originals as they are in the end. */
struct error *guardian_start(const struct surgeon *s) must_check;

#endif
