/*
 * The guardian removes the agent if the surgeon cannot. It is a separate process, forked before the
 * target is touched. It waits until the surgeon has ended without a clean detach; then it removes
 * the agent. If the target lives but cannot be stopped (frozen, under a debugger, waiting for a
 * disk), it tries again.
 *
 * It has a session of its own and ignores all signals. It has only those files open that it needs
 * to reach the target, so readers of gospect's output see its end. If SIGSTOP stops a surgeon that
 * holds threads of the target, the guardian resumes the surgeon until it has released them. Twice a
 * second it looks whether gospect was killed and gets no CPU to end (inject/hasten.h). The guardian
 * also takes back priorities that gospect had lent to threads of the target (inject/priority.h).
 *
 * A process has one guardian.
 */
#ifndef INJECT_GUARDIAN_H
#define INJECT_GUARDIAN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "inject/surgeon.h"

/* Forks it, with the surgeon's present state. It also sees the original code that the surgeon finds
 * later. */
struct error *guardian_start(const struct surgeon *s) must_check;

#endif
