/*
 * The surgeon: puts an agent into one process and takes it out again, by plans that others make
 * (inject/plan.h). It may trace that process and write to its memory, and so it parses nothing: of
 * the target it reads words at addresses that it is given, and what the kernel writes of it. It
 * acts on the one process that it was made for, as that was then, and on no other.
 *
 * It has a process of its own (sandbox/helper.h), which is forked before anything of the target is
 * parsed. It is not the broker: that opens files on request, programs among them, and answers
 * meanwhile; the surgeon opens none, and stopped threads never wait for a file. A caller may also
 * have a surgeon in its own process.
 *
 * Each operation is one request: while threads of the target are stopped, the surgeon sends no
 * request.
 *
 * When gospect ends without a word, the surgeon ends, and leaves the rest to its guardian
 * (inject/guardian.h).
 */
#ifndef INJECT_SURGEON_H
#define INJECT_SURGEON_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/door.h"
#include "base/error.h"
#include "inject/memfile.h"
#include "inject/pause.h"
#include "inject/plan.h"
#include "inject/snapshot.h"

struct surgeon;

/*
 * A surgeon for the target `pid`, and for no later process with that id. An operation that waits
 * ends early, with ERROR_STOPPED, when *stop is not 0, which the surgeon's process has to see;
 * NULL: it does not. In a process of its own the surgeon offers that to be killed where memory runs
 * out.
 */
struct error *surgeon_create(pid_t pid, const volatile sig_atomic_t *stop,
			     struct surgeon **ret) must_check;
/* The connection to the process of a surgeon: to its surgeon_serve(). */
struct surgeon_line {
	struct error *(*ask)(void *arg, struct door_call *call); /* NULL: in this process */
	void *arg;
};

/* For one in another process, which gets requests by this line. */
struct error *surgeon_call(struct surgeon_line line, struct surgeon **ret) must_check;
/* Detaches if necessary; leaves a failed removal to its guardian. A surgeon in another process is
 * not touched. */
void surgeon_destroy(struct surgeon *s);

/* In this order; SURGEON_EXPECT comes before, and SURGEON_LEAVE at any time. */
enum surgeon_operation {
	SURGEON_EXPECT,          /* says for how long the target would stop, and touches nothing */
	SURGEON_EXPECT_SNAPSHOT, /* likewise what a snapshot would cost */
	/*
	 * Takes the claim (inject/claim.h), starts the guardian, and removes a stale agent.
	 * ERROR_DENIED when another process traces the target, its memory is not writable, or its
	 * seccomp filter might kill it.
	 */
	SURGEON_ENTER,
	SURGEON_CLEAN, /* the same, to take that out and no more: then SURGEON_LEAVE follows */
	/* One thread of the target makes the mappings of the plan, while the others run. Returns
	 * the shared memory, which is empty. */
	SURGEON_MAP,
	SURGEON_SWITCH_ON, /* writes the jumps while all threads stand where that is safe */
	/* Instead of these two: a snapshot of its memory (inject/snapshot.h). */
	SURGEON_SNAPSHOT,
	SURGEON_SWITCH_AGAIN, /* the agent has switched itself off, as it heard nothing of us */
	SURGEON_END_SNAPSHOT,
	/* Removes the agent. If that fails the guardian continues; the message has its pid. */
	SURGEON_LEAVE,
	SURGEON_OPERATIONS
};

struct surgeon_answer {
	struct pause pause;                   /* SURGEON_EXPECT */
	struct snapshot_expectation expected; /* SURGEON_EXPECT_SNAPSHOT */
	struct snapshot_result snapshot;      /* SURGEON_SNAPSHOT, SURGEON_END_SNAPSHOT */
	uint64_t shared_address;              /* in the target */
	uint64_t attached_at; /* CLOCK_MONOTONIC: the first record could be written then */
	/* How long all threads were stopped at once, at most: to attach, and to detach. */
	uint64_t attach_ns, detach_ns;
	/* The mapped files, while the agent exists. */
	struct memfile_id code_file, shared_file;
};

struct surgeon_request {
	enum surgeon_operation operation;
	const struct survey *survey; /* SURGEON_ENTER, SURGEON_CLEAN */
	const struct plan *plan;     /* SURGEON_MAP */
	size_t plan_size;
	const struct snapshot_limits *limits; /* SURGEON_SNAPSHOT */
	/* The answer. */
	struct surgeon_answer answer; /* as far as it is known */
	/* The caller's to close; -1: none. */
	int shared;  /* SURGEON_MAP: the shared memory. SURGEON_SNAPSHOT: that of the copy */
	int threads; /* SURGEON_SNAPSHOT: the registers */
};

struct error *surgeon_ask(struct surgeon *s, struct surgeon_request *request) must_check;
/* The other side: a service of a helper (sandbox/helper.h). `arg` is a struct surgeon. */
struct error *surgeon_serve(void *arg, struct door_call *call) must_check;

/* A process that was killed takes a moment to die, in which all sorts of things fail. */
struct error *surgeon_explain(struct target *t, struct error *err) must_check;

#endif
