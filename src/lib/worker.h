/*
 * A child process that reads one target, confined (gospect/confine.h), and returns a few bytes.
 * Whatever the target's file or memory does to it, the process that started it is safe.
 */
#ifndef LIB_WORKER_H
#define LIB_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct gospect_surgeon;

/* With a remark it fits into a pipe and is written in one piece. */
#define WORKER_MAX_RESULT 3584
#define WORKER_MAX_REMARK 512

struct worker_job {
	pid_t target;
	bool cleans;                  /* it removes a stale agent; else it only reads */
	uint64_t memory, cpu_seconds; /* limits of the worker */
	/* Runs in the worker, on its copy of *result. `surgeon`: for cleaning. `err`: why it is not
	 * confined; the function frees it.
	 */
	void (*work)(void *result, struct gospect_surgeon *surgeon, struct error *err);
	void *result;
	size_t size; /* at most WORKER_MAX_RESULT */
};

struct worker {
	pid_t pid; /* of the worker, which leads a process group */
	int pipe;  /* readable when it is done; -1: none is at work */
	uint64_t deadline_ns;
	const struct worker_job *job;
	char remark[WORKER_MAX_REMARK]; /* of the finished worker: why it was not confined; "" */
};

/* Keeps the job until worker_finish(). */
struct error *worker_start(struct worker *w, const struct worker_job *job,
			   uint64_t deadline_ns) must_check;
/*
 * Call it when its pipe is readable or its deadline has passed. It ends the worker. Without an
 * error, job->result comes from the worker and is hostile; else it is unchanged.
 */
struct error *worker_finish(struct worker *w) must_check;
/* Waits for the worker, and then calls worker_finish(). */
struct error *worker_wait(struct worker *w) must_check;
/* Ends the worker, whatever it has done so far. */
void worker_end(struct worker *w);

#endif
