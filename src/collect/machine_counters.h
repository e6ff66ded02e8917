/*
 * What the machine and the kernel do to a process, as counters that grow: CPU time that it got, for
 * how long its control group was throttled by a CPU quota, and steal: time in which the hypervisor
 * ran others.
 */
#ifndef COLLECT_MACHINE_COUNTERS_H
#define COLLECT_MACHINE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gotrace/event.h"
#include "inject/quota.h"

struct machine_counters {
	pid_t pid;
	struct quota quota;
	uint64_t first[TRACE_COUNTERS];
	uint64_t last[TRACE_COUNTERS]; /* since the first reading */
	bool has[TRACE_COUNTERS];
};

void machine_counters_init(struct machine_counters *c, pid_t pid);

/* Reads them. Gives an event for each that has changed, and at first for each that there is: at
 * most TRACE_COUNTERS, without a time. There is always one for CPU time, which says when the others
 * were read. Returns how many. */
size_t machine_counters_read(struct machine_counters *c, struct trace_event *ret);

#endif
