/*
 * A watcher watches one process for conditions: a child process, which is confined to that process.
 * What it sends through its pipe is hostile, because the target may have taken it over.
 */
#ifndef CLI_WATCHER_H
#define CLI_WATCHER_H

#include <gospect/watch.h>
#include <sys/types.h>

#include "base/error.h"

struct watcher {
	pid_t target;
	pid_t child;
	int from;       /* its messages; -1: it has ended */
	char *name;     /* of the target's program */
	uint64_t since; /* when `incidents` began to count */
	size_t incidents;
	size_t remarks;
};

enum watcher_kind { WATCHER_INCIDENT, WATCHER_REMARK, WATCHER_FAILED, WATCHER_ENDED };

/* One write, which a pipe keeps whole. */
struct watcher_message {
	uint32_t kind;
	char word[16];
	char text[1024];
	struct gospect_watch_info info; /* of WATCHER_ENDED */
};

/* Call it after stop_on_signals() and before gospect is confined. `others` are closed in the child.
 */
struct error *watcher_start(struct watcher *l, pid_t target,
			    const struct gospect_watch_options *how, const struct watcher *others,
			    size_t count) must_check;
/* The next message, made fit to print; false: there is none, and the watcher has ended. */
bool watcher_read(struct watcher *l, struct watcher_message *ret);
void watcher_end(struct watcher *l);

#endif
