/* The command that gospect starts: `-- COMMAND ARGS...`. It runs as if gospect were not there: with
 * the signals, priorities, limits and descriptors that gospect was given. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <gospect/hold.h>
#include <sys/types.h>

#include "base/error.h"

/* Saves the OOM score, which a command gets back. main() calls it before it changes anything. */
void command_remember(void);

/* `command` is NULL-terminated. ERROR_FAILED has the reason of exec. From here on stop_on_signals()
 * is in force. With ret_hold, the program is held where it begins, and *ret_hold controls it; NULL
 * there: it could not be held and runs. */
struct error *command_start(char **command, struct gospect_hold **ret_hold, pid_t *ret) must_check;

/* Waits for its end; a signal that would end gospect goes to it. Gives its exit status as a shell
 * would: 128 + N for signal N. */
int command_wait(pid_t pid);

/* When memory runs out the kernel is to kill gospect, not the target: oom_score_adj. A command that
 * is started later does not inherit that. */
void command_offer_to_be_killed(void);

#endif
