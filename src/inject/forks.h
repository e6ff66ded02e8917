/* Copies of the target that were made for a snapshot (inject/snapshot.h), when they are dead. */
#ifndef INJECT_FORKS_H
#define INJECT_FORKS_H

#include <sys/types.h>

#include "base/error.h"
#include "inject/remote.h"

/* A child of the target without an exit signal is such a copy: a program makes none by fork(2).
 * 0: none. */
pid_t forks_find_dead(pid_t pid);

/* The stopped thread waits for all that have ended. */
struct error *forks_reap(struct remote *r) must_check;

#endif
