/* The command that gospect starts: `-- COMMAND ARGS...`. It runs as if gospect were not there: with
 * the signals, priorities, limits and descriptors that gospect was given. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <gospect/hold.h>
#include <sys/types.h>

#include "base/error.h"

/* Saves the OOM score for commands. main() calls it before it changes the score. */
void command_remember(void);

/* `command` is NULL-terminated. ERROR_FAILED has exec's reason. Afterwards stop_on_signals() is in
 * force. With ret_hold, the program is held before its first line, and *ret_hold controls it.
 * *ret_hold is NULL if it could not be held: then it runs. */
struct error *command_start(char **command, struct gospect_hold **ret_hold, pid_t *ret) must_check;

/* Waits for the command's end; a signal that would end gospect goes to the command. Returns its
 * exit status as a shell does: 128 + N for signal N. */
int command_wait(pid_t pid);

/* If memory runs out, the kernel shall kill gospect, not the target (oom_score_adj). Commands that
 * are started later do not inherit this. */
void command_offer_to_be_killed(void);

#endif
