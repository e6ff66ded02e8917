/*
 * Signals: how a verb ends before its time.
 *
 * A capture is never lost to a signal. The first one that would end gospect sets stop_requested:
 * the verb ends its capture and writes it. timeout(1), ssh and terminals signal a process and its
 * group: further signals within a second are the same request. A later SIGINT, SIGTERM, SIGHUP or
 * SIGQUIT aborts, with a line that says so and by the signal's own action.
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
 * From now on the first signal goes to this child process too; one that came before goes to it now.
 * Signals of the terminal are not forwarded, because the terminal sends them to both. 0: stops
 * forwarding.
 */
void stop_forward(pid_t pid);

/* Sets what runs before an abort or a crash, such as restoring the terminal. It must be
 * async-signal-safe. NULL: nothing. */
void stop_before_death(void (*restore)(void));

/* Handles faults. One in a mapped file that was truncated continues (base/mapped_file.h). Any other
 * crashes as usual, after the function of stop_before_death(). For main(). */
void stop_on_faults(void);

#endif
