/*
 * A made-up scheduler: events of threads, Ps and goroutines that do at random what Go's do, as a
 * tracer would see them. Some are lost, some are late, some are nonsense.
 */
#ifndef GOTRACE_TESTS_MADE_UP_SCHEDULE_H
#define GOTRACE_TESTS_MADE_UP_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

#include "gotrace/event.h"

struct schedule_options {
	uint64_t seed;
	unsigned int events;
	unsigned int lose;    /* percent of the events */
	unsigned int skip;    /* drop this many events at first: tracing begins in the middle */
	unsigned int late_ns; /* an event's time is late by at most this */
	bool nonsense;        /* any event at any time */
	bool go126;           /* events in system calls come in the order of Go 1.26 and later */
	uint32_t texts;       /* text numbers 1 .. texts are used */
	uint32_t stacks;
	uint64_t start_pc;
};

/* Returns events in the order of their times. The caller frees *ret. NULL: no memory. */
struct trace_event *schedule_make(const struct schedule_options *options, size_t *ret_count);

#endif
