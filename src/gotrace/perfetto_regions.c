#include "gotrace/perfetto_regions.h"

#include <string.h>

#include "base/cleanup.h"
#include "gotrace/event.h"
#include "gotrace/label_text.h"
#include "gotrace/perfetto_goroutines.h"
#include "gotrace/perfetto_names.h"
#include "gotrace/perfetto_slices.h"

/* A slice within the handler's, with the name of its request: "GET /users/7". False: the log does
 * not have it. */
static bool name_request(struct trace_writer *w, struct life *life, struct track *track,
			 const struct trace_step *step)
{
	_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;
	const char *line = texts_get(w->options.texts, step->arg[2]);
	uint64_t request = ++w->request_count;

	if (!track->open ||
	    strcmp(texts_get(w->options.texts, step->arg[1]), REQUEST_CATEGORY) != 0 ||
	    !label_text_find(line, "method", &value))
		return false;
	/* HTTP/2 has two handlers, one within the other. */
	if (life->request)
		return true;
	strbuf_reset(&w->text);
	strbuf_adds(&w->text, value.data);
	if (label_text_find(line, "path", &value)) {
		strbuf_addc(&w->text, ' ');
		strbuf_adds(&w->text, value.data);
	}
	w->failed |= w->text.failed || value.failed;
	perfetto_begin_with(w, track, perfetto_request_name(w, request),
			    &(struct slice_details){.labels = step->arg[2]});
	life->request = track->open;
	return true;
}

void perfetto_write_region(struct trace_writer *w, const struct trace_step *step)
{
	struct life *life = perfetto_life(w, step->g);
	struct track *track = perfetto_regions(w, life);

	if (step->op == OP_REGION_BEGIN) {
		perfetto_begin(w, track, perfetto_text_name(w, step->arg[1]), step->arg[2]);
	} else if (step->op == OP_REGION_END) {
		if (life->request && life->request == track->open) {
			life->request = 0;
			perfetto_end(w, track);
		}
		perfetto_end(w, track);
	} else if (!name_request(w, life, track, step)) {
		perfetto_instant(w, track, perfetto_text_name(w, step->arg[2]), step->arg[3]);
	}
}

static void begin_task(struct trace_writer *w, const struct trace_step *step)
{
	struct lane *lane;
	uint64_t *place;

	if (w->tasks.count >= TRACE_MOST_TASKS) {
		w->left_out++;
		return;
	}
	place = perfetto_at(w, &w->tasks, step->arg[0]);
	lane = *place ? NULL : tracks_take_lane(&w->tracks, &w->tracks.tasks, false);
	if (!lane)
		return;
	*place = (uintptr_t)lane;
	perfetto_begin_with(w, tracks_states(&w->tracks, lane, ""),
			    perfetto_text_name(w, step->arg[2]),
			    &(struct slice_details){.stack = step->arg[3],
						    .about = ARGUMENT_TASK,
						    .id = step->arg[0]});
}

static void end_task(struct trace_writer *w, uint64_t id)
{
	const uint64_t *place = map_find(&w->tasks, id);
	struct lane *lane = place ? (struct lane *)(uintptr_t)*place : NULL;

	if (!lane)
		return;
	perfetto_end(w, tracks_states(&w->tracks, lane, ""));
	tracks_leave_lane(&w->tracks, lane);
	map_remove(&w->tasks, id);
}

void perfetto_write_task(struct trace_writer *w, const struct trace_step *step)
{
	if (step->op == OP_TASK_BEGIN)
		begin_task(w, step);
	else
		end_task(w, step->arg[0]);
}
