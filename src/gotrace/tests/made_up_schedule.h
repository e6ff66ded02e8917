/*
 * A scheduler that is made up: events as a tracer would see them, of threads, processors and
 * goroutines that do at random what Go's do. Some are lost, some are late, some are nonsense.
 */
#ifndef GOTRACE_TESTS_MADE_UP_SCHEDULE_H
#define GOTRACE_TESTS_MADE_UP_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

#include "gotrace/event.h"

struct schedule_options {
	uint64_t seed;
	unsigned int events;
	unsigned int lose;    /* so many of 100 */
	unsigned int skip;    /* the first events: tracing begins in the middle */
	unsigned int late_ns; /* an event's time is late by up to so much */
	bool nonsense;        /* any event at any time */
	bool go126;           /* the order of events in system calls as from Go 1.26 on */
	uint32_t texts;       /* text numbers 1 .. texts are used */
	uint32_t stacks;
	uint64_t start_pc;
};

/* The caller frees *ret. In the order of their times. NULL: no memory. */
struct trace_event *schedule_make(const struct schedule_options *options, size_t *ret_count);

#endif
