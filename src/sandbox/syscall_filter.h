/* Which system calls a process that parses hostile bytes may still make. */
#ifndef SANDBOX_SYSCALL_FILTER_H
#define SANDBOX_SYSCALL_FILTER_H

#include <sys/types.h>

#include "base/error.h"

/* Installs the filter for all threads of this process, for good. `pid` is the process whose memory
 * process_vm_readv(2) may read, `child` the process that kill(2) may signal; 0 means none.
 * ERROR_UNSUPPORTED: the kernel, or a filter that is already there, does not permit it. */
struct error *filter_install(pid_t pid, pid_t child) must_check;

#endif
