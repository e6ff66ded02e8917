/*
 * Calls of the entry points of requests, as regions of their goroutine. For the model alone.
 *
 * Each call has its frame's distance from the stack's end. When a call begins or returns, all calls
 * at its place or further in are over: their returns were lost, or a panic skipped them.
 */
#ifndef GOTRACE_CALLS_H
#define GOTRACE_CALLS_H

#include "gotrace/state.h"

/* Handles TRACE_CALL and TRACE_RETURN. False: the event cannot be used. */
bool calls_take(struct state *s, struct state_m *m, const struct trace_event *ev);

#endif
