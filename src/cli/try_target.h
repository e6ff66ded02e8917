/* Whether gospect can read a process, for a verb that does not read it itself. */
#ifndef CLI_TRY_TARGET_H
#define CLI_TRY_TARGET_H

#include <sys/types.h>

#include "base/error.h"

/*
 * Opens the process in a child that is confined to it, and reads nothing more. The error is the
 * child's, which the process may have taken over: a code and a text, as hostile as the process. One
 * that takes longer than some seconds may be read: NULL. `exe`: an unstripped copy of its program;
 * NULL: none.
 */
struct error *try_target(pid_t pid, const char *exe) must_check;

#endif
