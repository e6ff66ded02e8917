/*
 * An agent's way into a target and what is known of it meanwhile, and the three steps of that way.
 * For those who take them: everybody else has inject/inject.h.
 */
#ifndef INJECT_INJECTION_H
#define INJECT_INJECTION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "inject/claim.h"
#include "inject/hooks.h"
#include "inject/inject.h"
#include "inject/memfile.h"
#include "inject/stub.h"
#include "inject/withdraw.h"

struct injection {
	struct target *t;
	const struct image *img;
	const struct golayout *lay;
	struct withdrawal w;
	struct claim claim;
	int memory;
	pthread_mutex_t switching; /* who writes to head.control while `attached` holds it */
	bool attached;
	bool is_guarded; /* injection_enter() starts the guardian, before it touches the target */
	bool cleans;     /* it is there to take out what another has left */
	bool touched;    /* something may be in the target, or may have been changed in it */
	struct hooks hooks;
	struct code_head head;
	uint8_t *pages;             /* head.stub_bytes, then far pages */
	struct agent_shared layout; /* as we made it */
	uint64_t shared_address;    /* in the target */
	struct memfile_id code_file, shared_file;
	uint64_t p_now; /* processors that there are, and have a slot */
	uint64_t without_ring;
	struct agent_shared *shared;
	uint64_t lost;
	uint64_t attach_ns;
	uint64_t attached_at;
};

/*
 * Before anything is written: ERROR_DENIED when somebody traces the target already, or its memory
 * may not be written to, or its seccomp filter might kill it. From here on we alone may trace it
 * (inject/claim.h), until injection_leave().
 */
struct error *injection_enter(struct injection *in) must_check;
void injection_leave(struct injection *in);
/* The target's part of it: the page of the claim goes, where that is possible. */
void injection_unclaim(struct injection *in);

/*
 * One thread of the target maps what the agent needs, while the others run: the shared memory, and
 * the code of the stubs and of the agent. in->head has where that goes, and has the stubs after it.
 * ERROR_DENIED: a policy forbids it. What was mapped stays for withdraw().
 */
struct error *injection_map(struct injection *in) must_check;

/* For the guardian of a gospect that has ended: nothing of it is in the target any more, which may
 * be gone, or another gospect cares for that. false: try again. */
bool injection_is_cleaned(struct target *t, const struct image *img,
			  const struct golayout *lay) must_check;

/* Writes the jumps while all threads stand where that is safe. What was written stays, likewise. */
struct error *injection_switch_on(struct injection *in) must_check;

#endif
