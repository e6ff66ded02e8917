/*
 * The target's memory at one point in time, for code that reads all of it.
 *
 * A thread of the target makes a copy of the process (fork) while all threads are stopped. They run
 * on as soon as the kernel has copied the page tables. The copy starts stopped and never runs:
 * gospect reads it, and then kills it. If a fork is not possible, the threads stay stopped while
 * gospect reads.
 *
 * The copy shares the target's descriptors, so a file that the target closes is closed. It has no
 * exit signal: the target's wait(2) does not see it, and no SIGCHLD comes. Only the target can wait
 * for it, with __WALL: a thread of the target does that for gospect (inject/forks.h). Until then
 * the copy is a zombie. If gospect is killed, the kernel kills the copy, and the guardian has the
 * target wait for it.
 *
 * When memory runs out, the kernel kills the copy first. Each page that the target writes to
 * meanwhile is copied, in the time and in the cgroup of the target.
 */
#ifndef INJECT_SNAPSHOT_H
#define INJECT_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum snapshot_way { SNAPSHOT_NONE, SNAPSHOT_FORK, SNAPSHOT_STOP };

/* In a request. */
struct snapshot_limits {
	uint64_t max_pause_ns; /* all threads stop no longer; 0: any */
	uint64_t no_fork;      /* 1: they stay stopped */
};

/* Before it is made. */
struct snapshot_expectation {
	uint64_t page_table_bytes;
	uint64_t resident_bytes;
	uint64_t fork_ns;  /* all threads stop for so long, with a fork */
	uint64_t stop_ns;  /* and without */
	char no_fork[200]; /* why there can be none; "": there can */
};

struct snapshot_result {
	enum snapshot_way way;
	char no_fork[200]; /* why there was no fork; "" */
	uint64_t threads;
	uint64_t pause_ns;     /* all threads were stopped; SNAPSHOT_STOP: known at the end */
	uint64_t lived_ns;     /* from the beginning to the end of the copy */
	uint64_t copied_bytes; /* of pages that the target wrote to meanwhile, or gave back */
	bool ended_early;      /* before gospect was done: what was read is worthless */
	char why_ended[120];
};

struct surgeon;

/* Touches nothing. */
void snapshot_expect(pid_t pid, struct snapshot_expectation *ret);

/*
 * Behind operation_enter(). *ret_memory: the memory of the copy, for reading; -1 with
 * SNAPSHOT_STOP. *ret_threads: the registers (target/memory_snapshot.h). The result is in
 * s->answer. ERROR_DENIED: the pause would be longer than permitted.
 */
struct error *snapshot_begin(struct surgeon *s, const struct snapshot_limits *limits,
			     int *ret_memory, int *ret_threads) must_check;

/* The target runs on, without the copy. Does nothing without a snapshot. An error: the copy is
 * dead, but the target could not yet be made to wait for it. */
struct error *snapshot_end(struct surgeon *s) must_check;

#endif
