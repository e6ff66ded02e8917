/* One process in a list of processes, read by a worker of its own: a hostile target spoils no other
 * row. */
#ifndef LIB_PROCESS_ROW_H
#define LIB_PROCESS_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/worker.h"

enum process_kind {
	PROCESS_OTHER,  /* not a Go program, or gone by now */
	PROCESS_DENIED, /* there is no telling: we may not look */
	PROCESS_GO,
};

/* Strings are the target's, cut to their room. */
struct process_row {
	pid_t pid;
	enum process_kind kind;
	int64_t goroutines; /* -1: not known */
	uint64_t threads;
	char name[64];
	char version[64];
	char build[96];
	char command[160];
	char reason[1024]; /* why something is not known; "" */
};

/* One that is being looked at. */
struct process_worker {
	struct worker worker;
	struct worker_job job;
	struct process_row *row;
};

/* Begins to look at row->pid; *row is complete once process_worker_finish() was called. */
struct error *process_worker_start(struct process_worker *w, struct process_row *row,
				   uint64_t deadline_ns) must_check;
/* When its pipe can be read or its deadline has passed. Ends whatever is left of it. */
void process_worker_finish(struct process_worker *w);

#endif
