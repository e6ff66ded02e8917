/*
 * Calls of functions that requests are under, as regions of their goroutine. For the model alone.
 *
 * Each has its frame's distance from the stack's end. A call further in than the one that begins or
 * returns, or at the same place, is over: its return was not seen, because a panic went through it,
 * or it was lost.
 */
#ifndef GOTRACE_CALLS_H
#define GOTRACE_CALLS_H

#include "gotrace/state.h"

/* TRACE_CALL, TRACE_RETURN. false: nothing could be made of it. */
bool calls_take(struct state *s, struct state_m *m, const struct trace_event *ev);

#endif
