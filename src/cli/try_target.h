/* Whether gospect can read a process, for a verb that does not read it itself. */
#ifndef CLI_TRY_TARGET_H
#define CLI_TRY_TARGET_H

#include <sys/types.h>

#include "base/error.h"

/*
 * A child, confined to the process, opens it as a target. NULL: that works, or takes longer than 10
 * seconds. The message of an error is as hostile as the process, which may have taken the child
 * over. `exe`: an unstripped copy of its program; NULL: none.
 */
struct error *try_target(pid_t pid, const char *exe) must_check;

#endif
