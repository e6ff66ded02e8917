/*
 * The collector: a thread that takes the agent's records out of the target's rings before these are
 * full. It has a real-time priority where that is permitted (collect/precedence.h), and does
 * nothing that takes long. Every 1 to 10 ms, sooner when more records come, it checks how much is
 * in the rings, and takes it when it is enough. The thread that created the collector decodes the
 * records. The collector says how urgent that is: the thread decodes only while a CPU is free,
 * unless the trace ends, a signal waits for the thread, or the limits are reached.
 */
#ifndef COLLECT_COLLECTOR_H
#define COLLECT_COLLECTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/backlog.h"
#include "collect/counters.h"
#include "collect/pace.h"
#include "collect/rings.h"
#include "collect/ticks.h"
#include "golayout/golayout.h"
#include "hooks/injection.h"
#include "target/target.h"

/* Records that others may be writing just now are left for the next look. */
#define COLLECTOR_MARGIN_NS 100000ull

/* Another limit of undecoded records while all CPUs are busy, besides half of the backlog's room;
 * 0: any. */
struct collector_limits {
	uint64_t bytes;
	uint64_t ns; /* since it was collected */
};

struct collector_options {
	struct target *t;
	const struct golayout *lay;
	struct injection *injection;
	struct backlog *backlog;
	const struct counters *counters;
	const struct ticks *ticks; /* one pair was measured a moment ago */
	const struct pace *pace;   /* of the thread that decodes, which is the caller */
	struct collector_limits limits;
	const atomic_int *cancel; /* not 0: it is urgent */
	uint64_t end_ns; /* CLOCK_MONOTONIC: from then on it is urgent; UINT64_MAX: unknown */
};

struct collector;

/* The collector runs when this returns. It keeps pointers to its arguments except `counters` and
 * `ticks`. `pace` belongs to the collector from now on, also after a failure. Both threads read the
 * target. */
struct error *collector_start(const struct collector_options *options,
			      struct collector **ret) must_check;
/* Ends its thread, whatever is in the rings. */
void collector_destroy(struct collector *c);

/* For the thread that made it: its priority may be low, unless the collector is urgent. To be
 * called each time; in between, collector_flush_now() and others may have made it urgent. */
void collector_lower_priority(struct collector *c);
/* Before each piece of long work: true when it is urgent, or a CPU is free. Else it sleeps
 * for 10 ms, less when a signal arrives. */
bool collector_lets_go_on(struct collector *c);
/* Records made by now are fetched and delivered at once. */
void collector_flush_now(struct collector *c);
/* The agent writes no more, as after the end of the target. Fetches the rest of the rings, as far
 * as there is room, and marks the last collection. */
void collector_finish(struct collector *c);

/* It has a real-time priority, or may have. */
bool collector_goes_first(const struct collector *c);
/* How often we did not run for so long that the agent switched itself off. */
uint64_t collector_absences(const struct collector *c);
void collector_rings_stats(const struct collector *c, struct rings_stats *ret);

static inline void cleanup_collector(struct collector **c)
{
	collector_destroy(*c);
}
#define _cleanup_collector_ __attribute__((cleanup(cleanup_collector)))

#endif
