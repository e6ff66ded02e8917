/*
 * What each goroutine does, in Perfetto's format: slices on its own track, or on a lane that it
 * shares (gotrace/perfetto_tracks.h), and on the tracks of the thread and the P that run it.
 */
#ifndef GOTRACE_PERFETTO_GOROUTINES_H
#define GOTRACE_PERFETTO_GOROUTINES_H

#include "gotrace/perfetto_writer.h"
#include "gotrace/step.h"

/* Never NULL: with no memory it is nobody's. */
struct life *perfetto_life(struct trace_writer *w, uint64_t g);
/* The tracks of what it does, and of its regions and logs. */
struct track *perfetto_states(struct trace_writer *w, struct life *life);
struct track *perfetto_regions(struct trace_writer *w, struct life *life);

/* OP_GO_CREATE to OP_GO_STATUS. */
void perfetto_write_schedule(struct trace_writer *w, const struct trace_step *step);
/* OP_LABELS: later slices have the labels among their details; a mark shows the time of the change.
 */
void perfetto_write_labels(struct trace_writer *w, const struct trace_step *step);
/* OP_PARKED: the slice that began with the trace gets the name and the stack of the wait. */
void perfetto_write_parked(struct trace_writer *w, const struct trace_step *step);

#endif
