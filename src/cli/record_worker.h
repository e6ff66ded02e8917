/*
 * A worker records one of several targets: a child process, which is confined to that target. It
 * sends frames through its pipe, each with a head. These are hostile, because the target's file or
 * memory may have taken the worker over.
 */
#ifndef CLI_RECORD_WORKER_H
#define CLI_RECORD_WORKER_H

#include <gospect/profile.h>
#include <sys/types.h>

#include "base/error.h"

/* Limits of one frame, and of all frames of a worker. */
#define WORKER_MAX_FRAME (64u << 10)
#define WORKER_MAX_BYTES (64u << 20)

enum worker_frame {
	WORKER_REMARK = 1, /* text */
	WORKER_ERROR,      /* a uint32_t, the code, and text */
	WORKER_NUMBERS,    /* struct worker_numbers */
	WORKER_PROFILE,    /* a piece of the profile: GOSPECT_PPROF_IDLE */
	WORKER_DONE,       /* empty: the profile is whole */
};

struct worker_head {
	uint32_t kind;
	uint32_t size;
};

/* Members of struct gospect_profile_info that are not in the profile. */
struct worker_numbers {
	double goroutines;
	double cpu_percent;
};

struct record_worker {
	pid_t target;
	pid_t child; /* the worker itself */
	int result;  /* to be read; -1: none */
	int stop;    /* a byte that is written to it ends the recording */
};

/*
 * Starts it. `memory` is how many bytes it may allocate. The child closes the pipes of `others`,
 * the workers that were started before, and the descriptor `unneeded`, if it is not -1. Call it
 * after stop_on_signals() and before gospect is confined.
 */
struct error *record_worker_start(struct record_worker *w, pid_t target,
				  const struct gospect_record_options *recording, uint64_t memory,
				  const struct record_worker *others, size_t count,
				  int unneeded) must_check;

#endif
