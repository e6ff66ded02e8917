/* The state of a surgeon and the steps of its work, for the files that implement them. Other code
 * includes inject/surgeon.h. */
#ifndef INJECT_OPERATION_H
#define INJECT_OPERATION_H

#include "inject/claim.h"
#include "inject/detach.h"
#include "inject/surgeon.h"

enum surgeon_state { SURGEON_OUT, SURGEON_IN, SURGEON_MAPPED, SURGEON_ON };

struct surgeon {
	pid_t pid;                            /* the target's */
	uint64_t start;                       /* and when it began */
	pid_t named;                          /* the gospect that users know; 0: this process */
	volatile sig_atomic_t *stop;          /* surgeon_stop() */
	const volatile sig_atomic_t *watched; /* another instead; or NULL */
	struct surgeon_line line;             /* to the process that does the work; or nothing */
	enum surgeon_state state; /* the steps that were begun, whether they succeeded or not */
	struct target *t;
	struct survey survey;
	struct originals *originals; /* shared with the guardian */
	/* The copy that was made of the target and was not yet waited for: FORK_EXPECTED while one
	 * may be made, 0 for none. Shared likewise. */
	volatile pid_t *fork;
	uint8_t *sent; /* of a plan that comes in parts, so far */
	size_t sent_size;
	struct plan *plan; /* our own copy, which was checked */
	struct detachment w;
	struct claim claim;
	int memory; /* /proc/PID/mem */
	bool is_guarded;
	bool cleans;
	bool touched; /* something may be in the target, or may have been changed in it */
	struct snapshot *snapshot;   /* the one that exists; or NULL */
	struct agent_shared *shared; /* written to by the target and by the plan's maker */
	struct surgeon_answer answer;
};

enum { FORK_EXPECTED = -1 };

/* Before anything is written: whether we may, and whether the target lets us. */
struct error *operation_check(struct surgeon *s) must_check;
/* From here on we alone may trace the target, until operation_leave(), which follows in any case.
 * false: something of it is left in the target. */
struct error *operation_enter(struct surgeon *s) must_check;
bool operation_leave(struct surgeon *s) must_check;

/* Maps as s->plan says. *ret_shared: a descriptor of the shared memory. On an error the mappings
 * stay for detach(). */
struct error *operation_map(struct surgeon *s, int *ret_shared) must_check;

/* On an error the written jumps stay likewise. */
struct error *operation_switch_on(struct surgeon *s) must_check;

/* For the guardian of a surgeon that has ended: whether nothing of it is in the target, or the
 * target is gone, or another gospect cares for it. false: something was there; it was removed where
 * that was possible, and is to be looked for again. */
bool operation_finds_clean(const struct surgeon *dead) must_check;

#endif
