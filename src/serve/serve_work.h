/* A worker: a process of its own that answers one request, confined to the request's process. */
#ifndef SERVE_SERVE_WORK_H
#define SERVE_SERVE_WORK_H

#include <stdnoreturn.h>
#include <sys/types.h>

#include "serve/serve_request.h"

/* What all workers have in common. */
struct serve_limits {
	const char *exe;   /* of the one process: an unstripped copy of its program; NULL: none */
	double budget;     /* percent of a core for one recording; 0: the library's default */
	uint64_t memory;   /* bytes that a worker may allocate */
	bool traces;       /* /debug/pprof/trace is served */
	const pid_t *pids; /* the processes that are served; NULL: all */
	size_t pid_count;
	bool children; /* and what these have started */
};

struct serve_job {
	struct serve_request request;
	const uint64_t *addresses;
	int data;  /* where the answer goes */
	int leash; /* readable when nobody wants it any more */
	int store; /* of the last hour of the process (serve_store.h); -1: there is none */
	pid_t parent;
	const struct serve_limits *limits;
};

/* Answers, and ends the process. */
noreturn void serve_work(const struct serve_job *job);

#endif
