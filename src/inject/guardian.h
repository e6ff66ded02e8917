/*
 * The guardian takes the agent out when the surgeon cannot. It is a separate process, forked before
 * the target is touched. It sleeps until the surgeon has ended without a clean detach; then it
 * removes the agent. While the target lives but cannot be stopped (frozen, under a debugger,
 * waiting for a disk), it tries again.
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

/* Forks it. It knows what the surgeon knows now, and sees the final originals. */
struct error *guardian_start(const struct surgeon *s) must_check;

#endif
