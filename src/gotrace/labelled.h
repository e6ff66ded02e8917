/*
 * Which labels the goroutines have, said as soon as it can be: a step needs a thread whose
 * goroutine runs, whoever it is about. For the model alone.
 */
#ifndef GOTRACE_LABELLED_H
#define GOTRACE_LABELLED_H

#include "gotrace/state.h"

/* Of TRACE_LABELS. False: of a goroutine that is not known. */
bool labelled_set(struct state *s, struct state_m *m, const struct trace_event *ev);

/* Says what is still to be said. */
void labelled_say(struct state *s, struct state_m *m);

/* All is to be said again. */
void labelled_repeat(struct state *s);

#endif
