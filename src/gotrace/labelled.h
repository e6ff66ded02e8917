/*
 * Facts for which the format has no event: the labels of goroutines, and where goroutines have
 * waited since before the trace. Emitted as soon as possible: a step needs a thread with a running
 * goroutine, whichever goroutine it is about. For the model alone.
 */
#ifndef GOTRACE_LABELLED_H
#define GOTRACE_LABELLED_H

#include "gotrace/state.h"

/* Handles TRACE_LABELS. False: the goroutine is unknown. */
bool labelled_set(struct state *s, struct state_m *m, const struct trace_event *ev);

/* Handles TRACE_PARKED. False: the goroutine is unknown, or the event has no stack. */
bool labelled_park(struct state *s, struct state_m *m, const struct trace_event *ev);

/* Emits pending items, if a goroutine runs. */
void emit_pending_labels(struct state *s, struct state_m *m);

/* Emits all pending items. If no goroutine runs, one is made up for that (TRACE_HELPER_GOID). */
void labelled_emit_all(struct state *s);

/* Makes all items pending again. */
void labelled_repeat(struct state *s);

#endif
