/* Which system calls a process that parses hostile bytes may still make. */
#ifndef SANDBOX_SYSCALL_FILTER_H
#define SANDBOX_SYSCALL_FILTER_H

#include <sys/types.h>

#include "base/error.h"

/* Installs the filter for all threads of this process, for good. process_vm_readv(2) may read the
 * process `pid`, and kill(2) may signal `child`; 0: none. ERROR_UNSUPPORTED: the kernel, or an
 * existing filter, does not permit it. */
struct error *filter_install(pid_t pid, pid_t child) must_check;

/* Likewise, for a process that sends: it may also connect to other machines, and open files to read
 * them. It reads no process and sends no signal to another one. */
struct error *filter_install_network(void) must_check;

/* Likewise, for a process that answers clients: it may also accept connections of sockets that it
 * has. */
struct error *filter_install_server(void) must_check;

#endif
