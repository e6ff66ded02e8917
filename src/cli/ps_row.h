/* What `ps` learns of one process, each by a worker of its own: whatever a target does to that, the
 * others' rows are safe. */
#ifndef CLI_PS_ROW_H
#define CLI_PS_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/worker.h"

enum ps_kind {
	PS_OTHER,  /* not a Go program, or gone by now */
	PS_DENIED, /* there is no telling: we may not look */
	PS_GO,
};

/* Strings are the target's, cut to their room. */
struct ps_row {
	pid_t pid;
	enum ps_kind kind;
	int64_t goroutines; /* -1: not known */
	uint64_t threads;
	char version[64];
	char build[96];
	char command[160];
	char reason[1024]; /* why something is not known; "" */
};

/* One that is being looked at. */
struct ps_worker {
	struct worker worker;
	struct worker_job job;
	struct ps_row *row;
};

/* Begins to look at row->pid; *row is complete once ps_worker_finish() was called. */
struct error *ps_worker_start(struct ps_worker *w, struct ps_row *row,
			      uint64_t deadline_ns) must_check;
/* When its pipe can be read or its deadline has passed. Ends whatever is left of it. */
void ps_worker_finish(struct ps_worker *w);

#endif
