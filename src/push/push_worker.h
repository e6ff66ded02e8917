/*
 * The worker: a process that records one Go process, confined to it, and makes the requests to
 * push. It sends frames through its pipe, each with a head. These are hostile, because the target's
 * file or memory may have taken the worker over.
 */
#ifndef PUSH_PUSH_WORKER_H
#define PUSH_PUSH_WORKER_H

#include <gospect/process.h>
#include <stdint.h>
#include <sys/types.h>

#include "push/destination.h"

/* Limits of one frame, and of a request. */
#define PUSH_MOST_FRAME (64u << 10)
#define PUSH_MOST_BODY (32u << 20)

enum push_frame {
	PUSH_FRAME_BEGUN = 1, /* the target is open: it is recorded from now on */
	PUSH_FRAME_REMARK,    /* text */
	PUSH_FRAME_ERROR,     /* a uint32_t, the code, and text */
	PUSH_FRAME_BODY,      /* a piece of a request */
	PUSH_FRAME_END,       /* of a request */
	PUSH_FRAME_DONE,      /* the target has ended, or gospect was told to */
};

struct push_frame_head {
	uint32_t kind;
	uint32_t size;
};

/* How many processes share the budget: gospect writes it, and workers cannot. */
struct push_share {
	uint32_t processes;
};

struct push_job {
	pid_t target;
	const char *program; /* the name of its file */
	const struct destination *destination;
	double interval;           /* seconds of a segment, at least */
	double budget;             /* percent of a core for all processes */
	int share;                 /* a sealed memory file with a struct push_share */
	uint64_t memory;           /* bytes that the worker may allocate */
	const char *const *labels; /* of the user; NULL-terminated */
	bool no_names;             /* of requests */
	const struct gospect_cancel *cancel;
};

struct push_worker {
	pid_t pid; /* 0: none */
	int pipe;  /* to be read, without waiting; -1: none */
};

/* SIGTERM ends it, with the segment that is under way, if the handler of that signal requests
 * `cancel`. The child keeps no other descriptor but standard error. */
struct error *push_worker_start(const struct push_job *job, struct push_worker *ret) must_check;
/* Kills it, if it still runs. */
void push_worker_end(struct push_worker *w);

#endif
