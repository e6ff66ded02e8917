/*
 * Removes the agent, for the gospect that installed it and for one that finds a stale agent: the
 * head of the code page has all facts that it needs.
 */
#ifndef INJECT_DETACH_H
#define INJECT_DETACH_H

#include "agent/abi.h"
#include "inject/code_page.h"
#include "inject/remote.h"
#include "inject/stale_agent.h"
#include "target/target.h"

struct detachment {
	struct target *t;
	const struct survey *survey;
	const struct originals *originals;
	int memory; /* /proc/PID/mem, for writing */
	bool suspend_seccomp;
	uint64_t claim; /* where ours is in the target (inject/claim.h): it stays */
	bool keep_code_page;
	bool forked;                       /* it has dead copies, which it has to wait for */
	bool never_ran;                    /* no jump was written: no thread can be in the agent */
	const struct agent_shared *shared; /* the agent's memory, if it is mapped here; or NULL */
	uint64_t slots_offset;
	uint32_t slots;
	uint64_t stop_ns; /* the longest stop of all threads */
};

/* Restores the original code wherever gospect's jumps are, and waits until no thread is in the
 * agent. ERROR_FAILED: one still is after 5 s. */
struct error *detach_code(struct detachment *w, struct code_head *head) must_check;

/* Unmaps and closes the listed items, by a thread that is stopped for it. */
struct error *detach_memory(struct detachment *w, struct remote *r,
			    const struct stale_agent *l) must_check;

/* All of it. ERROR_GONE when the target has ended meanwhile. */
struct error *detach(struct detachment *w) must_check;

#endif
