/*
 * Stopping a process's threads for a moment, by ptrace.
 *
 * All of it has to be done by one thread of ours: surgery() starts one for it, at real-time
 * priority where that is permitted, so that the first thread of the target that runs again does not
 * displace it. When that thread ends, or is killed with us, the kernel lets go of whatever it held.
 */
#ifndef INJECT_THREADS_H
#define INJECT_THREADS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct stopped_thread {
	pid_t id;
	bool stopped;
	bool gone;
	int signal; /* that it was about to take: given back when it goes on */
};

struct threads {
	pid_t pid;
	bool suspend_seccomp;
	struct stopped_thread *items;
	size_t count;
	size_t capacity;
	DIR *folder; /* /proc/PID/task, once they have been stopped */
};

/* Runs `step` in a thread of its own, and waits for it. */
struct error *surgery(struct error *(*step)(void *arg), void *arg) must_check;

/* ERROR_DENIED when a debugger has one of the threads; it is named. */
struct error *threads_check_untraced(pid_t pid) must_check;

/* Stops this thread. ERROR_DENIED: it is traced by somebody else, or we may not; ERROR_GONE. */
struct error *threads_stop_one(struct threads *t, pid_t id) must_check;

/*
 * Stops all of them, also those that are born meanwhile. A thread in the wait of vfork cannot be
 * stopped: after 30 ms ERROR_FAULT, with nothing stopped; try again later. In *ret_since when the
 * first was told to; who takes a signal just then stops a moment before.
 */
struct error *threads_stop_all(struct threads *t, uint64_t *ret_since) must_check;

/* They could not be stopped because another tracer has one of them, and we are not long at it: it
 * may be a gospect that comes just now, and takes a thread for a moment before it sees us. */
bool threads_are_borrowed(const struct error *err, uint64_t since);

/* Lets them go on, untraced. */
void threads_resume(struct threads *t);
void threads_release(struct threads *t);

#endif
