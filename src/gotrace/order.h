/*
 * Whether a step of a trace can be taken now: its sequence number follows the last one of its
 * goroutine or P, which is in the required state. Other illegal steps are not detected, because
 * readers need only an order.
 */
#ifndef GOTRACE_ORDER_H
#define GOTRACE_ORDER_H

#include <stdbool.h>

#include "base/map.h"
#include "gotrace/step.h"

struct order {
	struct map goroutines; /* goid -> state and sequence number */
	struct map processors; /* p -> state and sequence number */
	struct map holders;    /* p -> its thread */
	struct map held;       /* thread -> its p + 1 */
	struct map running;    /* thread -> its goroutine */
	uint64_t gc_seq;
	bool gc_known;
	bool failed; /* no memory */
};

bool order_permits(const struct order *o, const struct trace_step *step);

/* Takes the step. Sets step->g and step->p to those of the thread before it. */
void order_take(struct order *o, struct trace_step *step);

void order_release(struct order *o);

#endif
