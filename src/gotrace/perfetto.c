/*
 * Perfetto's format: tracks of slices. Each goroutine has a track (gotrace/perfetto_tracks.h) that
 * shows what it does (running, runnable, waiting and why), with an arrow from its waker; each P and
 * each thread has a track with the goroutine that it runs. The GC, the heap, the program's tasks
 * and regions, and the critical paths of the slowest requests have tracks, too.
 *
 * On a shared lane, a slice above the others names the goroutine. Slices may stay open from one
 * generation to the next. If early generations may be left out, all slices are ended and begun
 * again.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "gotrace/perfetto_goroutines.h"
#include "gotrace/perfetto_names.h"
#include "gotrace/perfetto_paths.h"
#include "gotrace/perfetto_regions.h"
#include "gotrace/perfetto_runtime.h"
#include "gotrace/perfetto_slices.h"
#include "gotrace/perfetto_writer.h"

static struct error *create(const struct trace_writer_options *options, struct trace_writer **ret)
{
	struct trace_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return &error_no_memory;
	w->options = *options;
	w->symbols.functions = options->functions;
	w->symbols.c_functions = options->c_functions;
	w->generation = 1;
	w->text = w->name = (struct strbuf)STRBUF_INIT;
	w->samples = (struct perfetto_samples){&w->packets, &w->symbols, &w->options};
	packets_init(&w->packets);
	tracks_init(&w->tracks, &w->packets, options->process, options->pid);
	*ret = w;
	return NULL;
}

static bool has_failed(const struct trace_writer *w)
{
	return w->failed || w->packets.failed || w->tracks.failed || w->samples.failed;
}

static struct error *write_step(void *arg, const struct trace_step *step)
{
	struct trace_writer *w = arg;

	w->last_ns = step->ns;
	if (!w->first_ns) {
		w->first_ns = step->ns;
		packets_begin(&w->packets, step->ns);
	}
	if (step->op >= OP_GO_CREATE && step->op <= OP_GO_STATUS)
		perfetto_write_schedule(w, step);
	else if (step->op >= OP_STW_BEGIN && step->op <= OP_GC_END)
		perfetto_write_gc(w, step);
	else if (step->op >= OP_REGION_BEGIN && step->op <= OP_LOG)
		perfetto_write_region(w, step);
	else if (step->op == OP_ASSIST_BEGIN || step->op == OP_GO_LABEL)
		perfetto_write_assist(w, step);
	else if (step->op == OP_LABELS)
		perfetto_write_labels(w, step);
	else if (step->op == OP_PARKED)
		perfetto_write_parked(w, step);
	else if (step->op == OP_CPU_SAMPLE)
		perfetto_samples_add(&w->samples, step);
	else if (step->op == OP_TASK_BEGIN || step->op == OP_TASK_END)
		perfetto_write_task(w, step);
	else
		perfetto_write_runtime(w, step);
	return has_failed(w) ? &error_no_memory : NULL;
}

/* Visits in the order of keys, so that the same steps make the same bytes. */
static void each(struct trace_writer *w, const struct map *map,
		 void (*visit)(struct trace_writer *w, void *item))
{
	_cleanup_free_ uint64_t *keys = map_sorted_keys(map);
	size_t count = map->count;

	w->failed |= count && !keys;
	for (size_t i = 0; keys && i < count; i++) {
		void *item = (void *)(uintptr_t)*map_find(map, keys[i]);

		if (item)
			visit(w, item);
	}
}

static void end_life(struct trace_writer *w, void *item)
{
	struct life *life = item;

	if (!life->lane)
		return;
	perfetto_end_all(w, &life->lane->regions);
	perfetto_end_all(w, &life->lane->states);
	life->request = 0;
	life->again = life->state ?: life->again;
	life->state = 0;
}

static void end_numbered(struct trace_writer *w, void *item)
{
	perfetto_end_all(w, &((struct numbered *)item)->track);
}

static void leave_task(struct trace_writer *w, void *item)
{
	struct lane *lane = item;

	perfetto_end_all(w, &lane->states);
	tracks_leave_lane(&w->tracks, lane);
}

/* Ends all slices except tasks. The next generation, if any, begins them again. */
static void end_all(struct trace_writer *w)
{
	each(w, &w->lives, end_life);
	each(w, &w->tracks.processors, end_numbered);
	each(w, &w->tracks.threads, end_numbered);
	perfetto_end_all(w, tracks_single(&w->tracks, TRACK_GC));
	perfetto_end_all(w, tracks_single(&w->tracks, TRACK_STW));
	each(w, &w->tasks, leave_task);
	map_release(&w->tasks);
}

static void forget_generation(struct trace_writer *w)
{
	packets_reset(&w->packets);
	tracks_new_generation(&w->tracks);
	perfetto_forget_names(w);
	perfetto_samples_new_generation(&w->samples);
	trace_symbols_trim(&w->symbols);
	w->first_ns = 0;
	w->generation++;
}

static struct error *finish(struct trace_writer *w)
{
	struct error *err;

	if (!w->first_ns)
		return NULL;
	if (w->options.separate)
		end_all(w);
	packets_complete(&w->packets);
	if (has_failed(w))
		return &error_no_memory;
	err = w->options.generation(w->options.arg, w->packets.packed.data,
				    w->packets.packed.length, w->first_ns);
	forget_generation(w);
	return err;
}

static struct error *next_generation(void *arg)
{
	return finish(arg);
}

static struct trace_sink sink(struct trace_writer *w)
{
	return (struct trace_sink){.step = write_step,
				   .generation = next_generation,
				   .arg = w,
				   .separate = w->options.separate};
}

static size_t size(const struct trace_writer *w)
{
	return packets_size(&w->packets);
}

static uint64_t left_out(const struct trace_writer *w)
{
	return w->left_out;
}

static void destroy(struct trace_writer *w)
{
	if (!w)
		return;
	map_release(&w->lives);
	map_release(&w->tasks);
	free(w->path_lanes);
	arena_release(&w->storage);
	tracks_release(&w->tracks);
	packets_release(&w->packets);
	used_release(&w->names);
	used_release(&w->values);
	used_release(&w->stacks);
	perfetto_samples_release(&w->samples);
	strbuf_release(&w->text);
	strbuf_release(&w->name);
	trace_symbols_release(&w->symbols);
	free(w);
}

const struct trace_format trace_format_perfetto = {
	.name = "perfetto",
	.suffix = ".pftrace",
	.header = "",
	.create = create,
	.sink = sink,
	.size = size,
	.mark_texts = perfetto_mark_texts,
	.left_out = left_out,
	.path = perfetto_write_path,
	.finish = finish,
	.destroy = destroy,
};
