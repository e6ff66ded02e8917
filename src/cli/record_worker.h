/*
 * A worker records one of several targets: a child process, which is confined to that target. What
 * it hands over through its pipe is hostile, because the target's file or memory may have taken it
 * over: frames, each with a head, up to the end of the pipe.
 */
#ifndef CLI_RECORD_WORKER_H
#define CLI_RECORD_WORKER_H

#include <gospect/profile.h>
#include <sys/types.h>

#include "base/error.h"

/* Of one frame, and of all of a worker. */
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
	int result; /* to be read; -1: none */
	int stop;   /* a byte that is written to it ends the recording */
};

/*
 * Starts it. `memory` is how many bytes it may allocate. `others` are workers that were started
 * before, whose pipes it closes, and so it does with `unneeded`, a descriptor or -1. For a process
 * that is not confined, after stop_on_signals().
 */
struct error *record_worker_start(struct record_worker *w, pid_t target,
				  const struct gospect_record_options *recording, uint64_t memory,
				  const struct record_worker *others, size_t count,
				  int unneeded) must_check;

#endif
