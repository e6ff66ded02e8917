#include "gotrace/perfetto_runtime.h"

#include "gotrace/event.h"
#include "gotrace/perfetto_goroutines.h"
#include "gotrace/perfetto_names.h"
#include "gotrace/perfetto_slices.h"

/* Those that are a time. */
static void count_kernel(struct trace_writer *w, const struct trace_step *step)
{
	static const unsigned int tracks[TRACE_COUNTERS] = {
		[TRACE_COUNTER_CPU] = TRACK_CPU,
		[TRACE_COUNTER_STEAL] = TRACK_STEAL,
		[TRACE_COUNTER_THROTTLED] = TRACK_THROTTLED,
	};

	if (tracks[step->arg[0]])
		perfetto_count(w, tracks[step->arg[0]], step->arg[1]);
}

void perfetto_write_runtime(struct trace_writer *w, const struct trace_step *step)
{
	switch (step->op) {
	case OP_PROC_STOP:
		perfetto_end(w, tracks_processor(&w->tracks, step->p));
		break;
	case OP_PROC_STEAL:
		perfetto_end(w, tracks_processor(&w->tracks, step->arg[0]));
		break;
	case OP_PROCS_CHANGE:
		perfetto_count(w, TRACK_PROCS, step->arg[0]);
		break;
	case OP_COUNTER:
		count_kernel(w, step);
		break;
	case OP_HEAP_ALLOC:
		perfetto_count(w, TRACK_HEAP, step->arg[0]);
		break;
	case OP_HEAP_GOAL:
		perfetto_count(w, TRACK_GOAL, step->arg[0]);
		break;
	default:
		break;
	}
}

void perfetto_write_gc(struct trace_writer *w, const struct trace_step *step)
{
	struct track *gc = tracks_single(&w->tracks, TRACK_GC);
	struct track *stw = tracks_single(&w->tracks, TRACK_STW);

	switch (step->op) {
	case OP_GC_BEGIN:
	case OP_GC_ACTIVE:
		if (!gc->open)
			perfetto_begin(w, gc, perfetto_fixed_name(w, NAME_COLLECTS),
				       step->op == OP_GC_BEGIN ? step->arg[1] : 0);
		break;
	case OP_GC_END:
		perfetto_end(w, gc);
		break;
	case OP_STW_BEGIN:
		perfetto_begin(w, stw, perfetto_text_name(w, step->arg[0]), step->arg[1]);
		break;
	default:
		perfetto_end(w, stw);
		break;
	}
}

void perfetto_write_assist(struct trace_writer *w, const struct trace_step *step)
{
	struct track *track = perfetto_states(w, perfetto_life(w, step->g));

	if (step->op == OP_ASSIST_BEGIN)
		perfetto_instant(w, track, perfetto_fixed_name(w, NAME_ASSISTS), step->arg[0]);
	else
		perfetto_instant(w, track, perfetto_text_name(w, step->arg[0]), 0);
}
