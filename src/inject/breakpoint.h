/* A breakpoint, and a loop of one instruction: one file for each architecture. */
#ifndef INJECT_BREAKPOINT_H
#define INJECT_BREAKPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "inject/machine_code.h"

#define BREAKPOINT_MOST 4 /* bytes of either */

extern const struct machine_code breakpoint_code;
/* A jump to itself; at least as long as the breakpoint. */
extern const struct machine_code breakpoint_loop;

/* The thread has stopped by the breakpoint at this address. */
bool breakpoint_is_at(pid_t id, uint64_t address);
/* It goes on there. */
bool breakpoint_go_to(pid_t id, uint64_t address);

#endif
