/*
 * Slices, marks and counters on the tracks of Perfetto's format. All happen at the time of the
 * writer's last step.
 */
#ifndef GOTRACE_PERFETTO_SLICES_H
#define GOTRACE_PERFETTO_SLICES_H

#include "gotrace/perfetto_writer.h"

/* Details of a slice besides its name and place. */
struct slice_details {
	uint64_t stack;
	uint64_t flow_to;
	uint32_t labels;
	enum packet_argument about;
	uint64_t id;
};

void perfetto_begin_with(struct trace_writer *w, struct track *track, uint64_t name,
			 const struct slice_details *details);
void perfetto_begin(struct trace_writer *w, struct track *track, uint64_t name, uint64_t stack);
/* Does nothing if nothing is open. */
void perfetto_end(struct trace_writer *w, struct track *track);
void perfetto_end_all(struct trace_writer *w, struct track *track);
/* For a track that has one open slice at a time. */
void perfetto_replace(struct trace_writer *w, struct track *track, uint64_t name);
void perfetto_instant(struct trace_writer *w, const struct track *track, uint64_t name,
		      uint64_t stack);
/* `number`: of a track that exists once. */
void perfetto_count(struct trace_writer *w, unsigned int number, uint64_t value);

#endif
