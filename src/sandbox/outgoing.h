/*
 * Giving up privilege in a process that talks to a server. It reads no process: what it sends, it
 * is given. It keeps no capability, and root becomes the user nobody, so that it can read what all
 * may read (certificates, /etc/resolv.conf). Then a seccomp filter holds: no process, no signal, no
 * file written, no socket but for IP and netlink. For a process with a single thread.
 */
#ifndef SANDBOX_OUTGOING_H
#define SANDBOX_OUTGOING_H

#include "base/error.h"

/* First. Libraries can still be loaded. */
struct error *outgoing_drop_privilege(void) must_check;
/* Second. ERROR_UNSUPPORTED: there is no seccomp here. Does nothing in a build with a sanitizer. */
struct error *outgoing_confine(void) must_check;

#endif
