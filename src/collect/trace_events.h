/* Events of a trace, one behind the other. */
#ifndef COLLECT_TRACE_EVENTS_H
#define COLLECT_TRACE_EVENTS_H

#include <stddef.h>

#include "base/array.h"
#include "base/error.h"
#include "gotrace/event.h"

struct trace_events {
	struct trace_event *items;
	size_t count;
	size_t capacity;
};

static inline struct error *must_check trace_events_add(struct trace_events *events,
							const struct trace_event *ev)
{
	if (!array_reserve(&events->items, &events->capacity, events->count + 1))
		return &error_no_memory;
	events->items[events->count++] = *ev;
	return NULL;
}

#endif
