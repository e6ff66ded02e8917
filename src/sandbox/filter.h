/* Which system calls a process that parses hostile bytes may still make. */
#ifndef SANDBOX_FILTER_H
#define SANDBOX_FILTER_H

#include <sys/types.h>

#include "base/error.h"

/* From now on, for all threads of this process. `pid`: whose memory may be read by
 * process_vm_readv(2); `child`: who may be sent signals; 0: nobody. ERROR_UNSUPPORTED:
 * the kernel, or a filter that is there already, does not permit it. */
struct error *filter_install(pid_t pid, pid_t child) must_check;

#endif
