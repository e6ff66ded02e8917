#include "gotrace/perfetto_paths.h"

#include "base/array.h"
#include "gotrace/perfetto_names.h"
#include "gotrace/perfetto_slices.h"

/* Where no path ends later than this one begins; NULL: no memory. */
static struct path_lane *free_lane(struct trace_writer *w, uint64_t begin)
{
	struct lane *lane;

	for (size_t i = 0; i < w->path_lane_count; i++)
		if (w->path_lanes[i].end <= begin)
			return &w->path_lanes[i];
	if (!array_reserve(&w->path_lanes, &w->path_lane_capacity, w->path_lane_count + 1))
		return NULL;
	lane = tracks_take_lane(&w->tracks, &w->tracks.paths, false);
	if (!lane)
		return NULL;
	w->path_lanes[w->path_lane_count] = (struct path_lane){lane, 0};
	return &w->path_lanes[w->path_lane_count++];
}

static const char *does(const struct trace_path_segment *s)
{
	switch (s->state) {
	case TRACE_RUNNING:
		return "running";
	case TRACE_RUNNABLE:
		return "runnable";
	case TRACE_IN_SYSCALL:
		return "syscall";
	case TRACE_WAITING:
		return *s->reason ? s->reason : "waiting";
	default:
		return "?";
	}
}

/* "sleep: G7 main.worker" */
static uint64_t segment_name(struct trace_writer *w, const struct trace_path_segment *s)
{
	const struct life life = {.g = s->g, .start_pc = s->start_pc};
	const char *goroutine = perfetto_goroutine_text(w, &life);

	strbuf_reset(&w->text);
	strbuf_adds(&w->text, does(s));
	strbuf_adds(&w->text, ": ");
	strbuf_adds(&w->text, goroutine);
	w->failed |= w->text.failed;
	return perfetto_request_name(w, ++w->request_count);
}

static void end_slice(struct trace_writer *w, const struct track *track, uint64_t ns)
{
	packets_event(&w->packets, &(struct packet_event){.ns = ns,
							  .track = track->uuid,
							  .type = PACKET_SLICE_END,
							  .is_past = true});
}

static void write_segment(struct trace_writer *w, const struct track *track,
			  const struct trace_path_segment *s)
{
	struct packet_event ev = {.ns = s->begin,
				  .track = track->uuid,
				  .type = PACKET_SLICE_BEGIN,
				  .about = ARGUMENT_GOROUTINE,
				  .id = s->g,
				  .flow_from = s->wake,
				  .is_past = true};

	ev.stack = perfetto_stack(w, s->stack);
	ev.name = segment_name(w, s);
	packets_event(&w->packets, &ev);
	end_slice(w, track, s->end);
}

void perfetto_write_path(struct trace_writer *w, const struct trace_path *path)
{
	struct path_lane *lane = w->first_ns ? free_lane(w, path->begin) : NULL;
	struct packet_event ev = {.ns = path->begin,
				  .type = PACKET_SLICE_BEGIN,
				  .about = ARGUMENT_GOROUTINE,
				  .id = path->g,
				  .is_past = true};
	const struct track *track;

	w->failed |= w->first_ns && !lane;
	if (!lane)
		return;
	lane->end = path->end;
	track = tracks_states(&w->tracks, lane->lane, "");
	strbuf_reset(&w->text);
	strbuf_adds(&w->text, path->request);
	ev.track = track->uuid;
	ev.name = perfetto_request_name(w, ++w->request_count);
	packets_event(&w->packets, &ev);
	for (size_t i = 0; i < path->count; i++)
		write_segment(w, track, &path->segments[i]);
	end_slice(w, track, path->end);
}
