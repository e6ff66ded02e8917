/* One process in a list of processes, read by a worker of its own: a hostile target spoils no other
 * row. */
#ifndef LIB_PROCESS_ROW_H
#define LIB_PROCESS_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cgroup.h"
#include "lib/worker.h"

enum process_kind {
	PROCESS_OTHER,  /* not a Go program, or gone by now */
	PROCESS_DENIED, /* unknown: gospect may not read it */
	PROCESS_GO,
};

/* Strings are the target's, truncated. */
struct process_row {
	pid_t pid;
	uint64_t start; /* as process_start() has it */
	enum process_kind kind;
	int64_t goroutines; /* -1: not known */
	uint64_t threads;
	char name[64];
	char container[CGROUP_CONTAINER_SIZE];
	char version[64];
	char build[96];
	char command[160];
	char reason[1024]; /* why something is not known; "": nothing is missing */
};

/* One that is being looked at. */
struct process_worker {
	struct worker worker;
	struct worker_job job;
	struct process_row *row;
};

/* Starts to read row->pid. *row is complete after process_worker_finish(). */
struct error *process_worker_start(struct process_worker *w, struct process_row *row,
				   uint64_t deadline_ns) must_check;
/* Call it when the pipe is readable or the deadline has passed. Ends the worker. */
void process_worker_finish(struct process_worker *w);

#endif
