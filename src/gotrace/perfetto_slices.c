#include "gotrace/perfetto_slices.h"

#include "gotrace/perfetto_names.h"

void perfetto_begin_with(struct trace_writer *w, struct track *track, uint64_t name,
			 const struct slice_details *details)
{
	track->open++;
	packets_event(&w->packets,
		      &(struct packet_event){.ns = w->last_ns,
					     .track = track->uuid,
					     .type = PACKET_SLICE_BEGIN,
					     .name = name,
					     .stack = perfetto_stack(w, details->stack),
					     .labels = details->labels
							       ? perfetto_labels(w, details->labels)
							       : 0,
					     .about = details->about,
					     .id = details->id,
					     .flow_to = details->flow_to});
}

void perfetto_begin(struct trace_writer *w, struct track *track, uint64_t name, uint64_t stack)
{
	perfetto_begin_with(w, track, name, &(struct slice_details){.stack = stack});
}

void perfetto_end(struct trace_writer *w, struct track *track)
{
	if (!track->open)
		return;
	track->open--;
	packets_event(&w->packets, &(struct packet_event){.ns = w->last_ns,
							  .track = track->uuid,
							  .type = PACKET_SLICE_END});
}

void perfetto_end_all(struct trace_writer *w, struct track *track)
{
	while (track->open)
		perfetto_end(w, track);
}

void perfetto_replace(struct trace_writer *w, struct track *track, uint64_t name)
{
	perfetto_end(w, track);
	perfetto_begin(w, track, name, 0);
}

void perfetto_instant(struct trace_writer *w, const struct track *track, uint64_t name,
		      uint64_t stack)
{
	packets_event(&w->packets, &(struct packet_event){.ns = w->last_ns,
							  .track = track->uuid,
							  .type = PACKET_INSTANT,
							  .name = name,
							  .stack = perfetto_stack(w, stack)});
}

void perfetto_count(struct trace_writer *w, unsigned int number, uint64_t value)
{
	packets_event(&w->packets,
		      &(struct packet_event){.ns = w->last_ns,
					     .track = tracks_single(&w->tracks, number)->uuid,
					     .type = PACKET_COUNTER,
					     .value = value});
}
