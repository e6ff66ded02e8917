/*
 * Giving up privilege before anything hostile is parsed.
 *
 * gospect runs as root beside programs that it must not trust, and parses their binaries, their
 * memory and files from elsewhere. sandbox_enter() splits it in two, as OpenSSH does:
 *
 * - The broker (sandbox/broker.h), a process of a few hundred lines, keeps the privilege. It opens
 *   files that its policy allows, and parses none of them. Other privileged work has helpers
 *   (sandbox/helper.h), which were started before.
 * - gospect itself, which goes on as the same process, keeps the capabilities that its options
 *   name, and runs under a seccomp filter from then on: it opens no file, makes no socket and no
 *   process, sends no signal, reads the memory of the one target, and writes to descriptors that
 *   it has. It can gain nothing back (no_new_privs).
 *
 * Forbidden calls fail with EPERM, so an overlooked system call is an error, not a crash. For the
 * only thread of a process.
 */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "sandbox/broker.h"

struct sandbox_options {
	struct broker_policy policy; /* of the broker that sandbox_enter() starts */
	pid_t child;                 /* that may be sent signals; 0: none */
	uint64_t keep;               /* capabilities to keep, by number, if it has them */
	uint64_t memory;             /* bytes that may be allocated; 0: no own limit */
	uint64_t cpu_seconds;        /* of CPU time; 0: no own limit */
};

/*
 * Starts the broker, opens the door to it, and drops privilege. Open descriptors stay open.
 * ERROR_UNSUPPORTED: there is no seccomp here, and all but the filter is done. Any other error
 * leaves everything unchanged.
 */
struct error *sandbox_enter(const struct sandbox_options *options) must_check;

/*
 * For a process that answers clients. It keeps no capability, is no longer root, opens no file and
 * has no broker; it may accept connections. `memory`: bytes that may be allocated.
 * ERROR_UNSUPPORTED: there is no seccomp here, and all but the filter is done.
 */
struct error *sandbox_enter_server(uint64_t memory) must_check;

/* Ends the broker and waits for it. Does nothing without one. The process stays confined. */
void sandbox_leave(void);

/* Whether this process is confined. */
bool sandbox_is_entered(void);

/* False where gospect is built with a sanitizer, which needs more system calls than we allow:
 * sandbox_enter() does nothing then. */
bool sandbox_is_built(void);

#endif
