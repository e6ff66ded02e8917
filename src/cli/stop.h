/*
 * Signals: how a verb ends before its time.
 *
 * A capture is never lost to a signal. The first one that would end gospect sets stop_requested:
 * the verb ends its capture and writes what there is. timeout(1), ssh and terminals send theirs to
 * a process and to its group: what follows within a second is the same request. A later SIGINT,
 * SIGTERM, SIGHUP or SIGQUIT aborts, with a line that says so and by the signal's own action.
 */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <gospect/process.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

extern volatile sig_atomic_t stop_requested;

/* Requested with it: for functions that take a struct gospect_cancel. NULL: there was no memory for
 * it. */
extern struct gospect_cancel *stop_cancel;

/*
 * From now on signals set stop_requested, and write() fails where SIGPIPE and SIGXFSZ would have
 * ended gospect. A SIGHUP that is ignored stays so: that is what nohup(1) is for. Does nothing the
 * second time.
 */
void stop_on_signals(void);
/* In a child of fork(), before exec: gives each signal the action that it had when gospect began.
 */
void stop_forget(void);

/* While it is held, a second signal waits: gospect's agent is in a target, or about to be. Does
 * nothing the second time. */
void stop_hold(void);
void stop_release(void);

/*
 * From now on the first signal goes to this process as well, our child; one that has come already
 * goes to it now. But for those of the terminal, which sends them to both. 0: to nobody any more.
 */
void stop_forward(pid_t pid);

/* What gospect's sudden end needs before it, async-signal-safe: a terminal is given back. Called
 * when a signal aborts, and when gospect crashes. NULL: nothing. */
void stop_before_death(void (*restore)(void));

/* Faults: one in a mapped file that was truncated goes on (base/mapped_file.h), any other crashes
 * as it would have, but after what stop_before_death() was told. For main(). */
void stop_on_faults(void);

#endif
