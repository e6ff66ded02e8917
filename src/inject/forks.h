/* Copies of the target that were made for a snapshot (inject/snapshot.h), when they are dead. */
#ifndef INJECT_FORKS_H
#define INJECT_FORKS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "inject/remote.h"

/* More than gospects ever leave. */
#define FORKS_MOST 16

struct forks {
	pid_t ids[FORKS_MOST];
	size_t count;
};

/* Children of the target without an exit signal that have ended: a program makes none by fork(2).
 * Looks at all processes of the machine. */
void forks_find_dead(pid_t pid, struct forks *ret);

/* The stopped thread waits for them. */
struct error *forks_reap(struct remote *r, const struct forks *forks) must_check;

#endif
