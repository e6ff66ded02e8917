/* Brings what is in the spool to the server: when to send, when to wait, and what to say of it. */
#ifndef PUSH_DELIVERY_H
#define PUSH_DELIVERY_H

#include "push/push.h"
#include "push/sender.h"
#include "push/spool.h"

struct delivery {
	const struct push_options *o;
	struct spool *spool;
	struct sender sender;
	uint64_t under_way; /* the serial of the file that the sender has; 0: none */
	uint64_t asked_ns;  /* when it was given that */
	uint64_t next_ns;   /* not before this */
	uint32_t failures;  /* in a row */
	uint32_t crashes;   /* of the sender, with one file */
	uint64_t sent, refused;
	uint64_t told_ns; /* when a failure was said last; 0: the server works */
	uint64_t said_refused, said_dropped, said_ns; /* totals that were said, and when */
};

/* Starts the sender, and waits until it is ready. */
struct error *delivery_start(const struct push_options *o, struct spool *spool,
			     struct delivery *ret) must_check;
void delivery_end(struct delivery *d);

/* Gives the sender what it can send now. */
void delivery_go_on(struct delivery *d);
/* Takes its answer; call it when its socket is readable. */
void delivery_take(struct delivery *d);
/* When delivery_go_on() has something to do, by CLOCK_MONOTONIC; UINT64_MAX: when the sender
 * answers, or the spool gets a file. */
uint64_t delivery_due(const struct delivery *d);
/* Whether the server did not take the last request. */
bool delivery_fails(const struct delivery *d);
/* Says what was dropped since the last time; `is_last`: in any case, else once a minute. */
void delivery_say_losses(struct delivery *d, bool is_last);

#endif
