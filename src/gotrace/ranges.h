/* Ranges with a beginning and an end: those of the GC, and the program's own regions and tasks. For
 * the model alone. */
#ifndef GOTRACE_RANGES_H
#define GOTRACE_RANGES_H

#include "gotrace/state.h"

/* Handles GC, stop of the world, assist, sweep, heap, GOMAXPROCS and label: kinds TRACE_GC_BEGIN to
 * TRACE_LABEL. `m` NULL: read from outside, on no thread. False: the event cannot be used. */
bool ranges_runtime(struct state *s, struct state_m *m, const struct trace_event *ev);

/* Handles the kinds TRACE_TASK_BEGIN to TRACE_LOG. */
bool ranges_user(struct state *s, struct state_m *m, const struct trace_event *ev);

/* Emits the pending items of this generation if a thread can: the running GC, and counters. */
void ranges_emit_pending(struct state *s, struct state_m *m);

/* Emits the kernel's counters that the trace does not have yet. If no goroutine runs, one is made
 * up for that. */
void ranges_emit_new_counters(struct state *s);

/* Begins a generation, which repeats the number of Ps and the size of the heap. */
void ranges_new_generation(struct state *s);

#endif
