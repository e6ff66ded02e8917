/*
 * Signals: how a verb ends early.
 */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <gospect/process.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

extern volatile sig_atomic_t stop_requested;

/* Cancelled together with stop_requested, for functions that take a struct gospect_cancel. NULL: no
 * memory. */
extern struct gospect_cancel *stop_cancel;

/*
 * From now on signals set stop_requested, and write() fails where SIGPIPE and SIGXFSZ would have
 * ended gospect. An ignored SIGHUP stays ignored, because nohup(1) sets that. Does nothing the
 * second time.
 */
void stop_on_signals(void);
/* In a child of fork(), before exec: gives each signal the action that it had when gospect began.
 */
void stop_forget(void);

/* Defers a second signal: gospect's agent is in a target, or about to be. Does nothing the second
 * time. */
void stop_hold(void);
void stop_release(void);

/*
 * From now on the first signal goes to this child process too; one that came before goes to it now.
 * Signals of the terminal are not forwarded, because the terminal sends them to both. 0: stops
 * forwarding.
 */
void stop_forward(pid_t pid);

/* Sets a function that runs before an abort or a crash: for example, it restores the terminal. It
 * must be async-signal-safe. NULL: none. */
void stop_before_death(void (*restore)(void));

/* Handles faults. One in a mapped file that was truncated continues (base/mapped_file.h). Any other
 * crashes as usual, after the function of stop_before_death(). For main(). */
void stop_on_faults(void);

#endif
