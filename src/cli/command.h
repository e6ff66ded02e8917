/* The command that gospect starts: `-- COMMAND ARGS...`. It runs as if gospect were not there: with
 * the signals, priorities, limits and descriptors that gospect was given. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <gospect/hold.h>
#include <sys/types.h>

#include "base/error.h"

/* Notes what a command gets back: for main(), before anything is changed. */
void command_remember(void);

/* NULL-terminated; ERROR_FAILED: exec says why. From here on stop_on_signals() is in force. With
 * ret_hold, what is started stands where it begins, and that has it; NULL there: it runs, for it
 * cannot be held. */
struct error *command_start(char **command, struct gospect_hold **ret_hold, pid_t *ret) must_check;

/* Waits for its end; a signal that would end gospect goes to it. Gives its exit status as a shell
 * would: 128 + N for signal N. */
int command_wait(pid_t pid);

/* When memory runs out the kernel is to kill gospect, not the target: oom_score_adj. A command that
 * is started later does not inherit that. */
void command_offer_to_be_killed(void);

#endif
