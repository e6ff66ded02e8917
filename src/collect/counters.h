/*
 * Counters that no hook sees: heap size and GOMAXPROCS, read from outside at intervals. A change is
 * an event.
 */
#ifndef COLLECT_COUNTERS_H
#define COLLECT_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "golayout/golayout.h"
#include "gotrace/event.h"
#include "image/image.h"
#include "target/target.h"

#define COUNTERS_MAX_EVENTS 3

struct counters {
	uint64_t controller;                        /* runtime.gcController; 0: not found */
	uint64_t gomaxprocs, heap_alloc, heap_goal; /* as they were last */
};

void counters_init(struct counters *c, const struct image *img, const struct golayout *lay);
/* How many events there are, with ns, m and p left open. */
size_t counters_read(struct counters *c, struct target *t, const struct golayout *lay,
		     struct trace_event ret[COUNTERS_MAX_EVENTS]);

#endif
