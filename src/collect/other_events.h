/*
 * The events of a trace that the agent does not record: the runtime's counters, which the collector
 * reads; the kernel's, which are read once a second; and CPU samples. They wait here until the
 * agent's records around them are decoded, and come out in the order of their times.
 */
#ifndef COLLECT_OTHER_EVENTS_H
#define COLLECT_OTHER_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/intern.h"
#include "collect/block.h"
#include "collect/cpu_samples.h"
#include "collect/machine_counters.h"
#include "collect/trace_events.h"
#include "golayout/golayout.h"
#include "gotrace/c_functions.h"
#include "image/image.h"
#include "target/target.h"

/* Events from one source. */
struct other_source {
	struct trace_events events;
	size_t taken;
};

struct other_events {
	uint64_t start_ns;          /* CLOCK_MONOTONIC at ns 0 of the events; set by the user */
	uint64_t given_ns;          /* time of the last event in a batch, from any source */
	struct other_source counts; /* of the runtime */
	struct other_source kernels;
	struct machine_counters machine;
	uint64_t machine_ns;     /* when they were read last; 0: never */
	struct cpu_samples *cpu; /* NULL: there are none */
	struct error *no_cpu;    /* why, if they were asked for */
	uint64_t cpu_next_ns;    /* time of the next sample; UINT64_MAX: none */
	uint64_t cpu_late;       /* samples that came behind the events around them */
	struct intern cpu_stacks;
	struct c_functions c_functions; /* in these */
};

void other_events_init(struct other_events *o, pid_t pid);
void other_events_release(struct other_events *o);

/* Begins to take CPU samples. A trace goes on without them: then no_cpu says why. */
struct error *other_events_open_cpu(struct other_events *o, struct target *t,
				    const struct image *img, const struct golayout *lay, double hz,
				    int priority) must_check;
/* Reads the kernel's counters, when a second has passed or `now_too`. */
struct error *other_events_read_machine(struct other_events *o, bool now_too) must_check;
/* What came with a collection of records: the runtime's counters, and the CPU samples until then.
 */
struct error *other_events_add(struct other_events *o, const struct collection *about) must_check;

/* Appends to the batch all that happened up to this time. */
struct error *other_events_before(struct other_events *o, uint64_t ns,
				  struct trace_events *batch) must_check;

/* CPU samples that are missing, and threads that have none. */
void other_events_cpu_lost(const struct other_events *o, uint64_t *ret_samples,
			   uint64_t *ret_threads);

#endif
