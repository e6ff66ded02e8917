/*
 * The labels of goroutines, emitted as soon as possible: a step needs a thread with a running
 * goroutine, whichever goroutine it is about. For the model alone.
 */
#ifndef GOTRACE_LABELLED_H
#define GOTRACE_LABELLED_H

#include "gotrace/state.h"

/* Of TRACE_LABELS. False: of a goroutine that is not known. */
bool labelled_set(struct state *s, struct state_m *m, const struct trace_event *ev);

/* Emits those that are pending. */
void emit_pending_labels(struct state *s, struct state_m *m);

/* All are pending again. */
void labelled_repeat(struct state *s);

#endif
