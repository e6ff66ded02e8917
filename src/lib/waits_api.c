#include <gospect/waits.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "lib/error_api.h"
#include "lib/options.h"
#include "lib/sink.h"
#include "lib/target_handle.h"
#include "waits/wait_graph.h"

struct gospect_waits {
	struct wait_graph *waits;
	struct gospect_waits_info info;
};

void gospect_waits_destroy(struct gospect_waits *w)
{
	if (!w)
		return;
	wait_graph_destroy(w->waits);
	free(w);
}

static void cleanup_waits_handle(struct gospect_waits **w)
{
	gospect_waits_destroy(*w);
}

static void count(struct gospect_waits *w)
{
	const struct wait_graph *waits = w->waits;

	w->info = (struct gospect_waits_info){
		.goroutines = waits->alive,
		.objects = waits->object_count,
		.moved = waits->moved,
		.unknown = waits->unknown,
		.is_cut = waits->truncated,
	};
	for (size_t i = 0; i < waits->count; i++)
		w->info.waiting += waits->goroutines[i].edge_count != 0;
	for (size_t i = 0; i < waits->cycle_count; i++) {
		w->info.deadlocks += waits->cycles[i].proved;
		w->info.suspicions += !waits->cycles[i].proved;
	}
}

static struct error *must_check take(struct gospect_target *t, bool system, struct gospect_waits *w)
{
	struct wait_graph_options how = {.system = system, .stop = t->cancel};
	struct error *err = target_check_cancel(t);

	if (err)
		return err;
	target_remark_stopped(t);
	err = wait_graph_take(t->target, t->image, t->layout, &how, &w->waits);
	if (err)
		return err == &error_stopped ? err : target_explain(t->target, err);
	count(w);
	if (w->waits->truncated)
		remark(&t->remark,
		       "more waits than gospect's limits permit: the output is incomplete");
	return NULL;
}

struct gospect_error *gospect_waits_take(struct gospect_target *t,
					 const struct gospect_waits_options *given,
					 struct gospect_waits **ret)
{
	_cleanup_(cleanup_waits_handle) struct gospect_waits *w = calloc(1, sizeof(*w));
	struct gospect_waits_options options = {0};
	struct error *err;

	if (!w)
		return error_out(&error_no_memory);
	err = options_take(given, &options, sizeof(options), "gospect_waits_options");
	if (!err)
		err = take(t, options.system, w);
	if (!err)
		*ret = take_ptr(w);
	return error_out(err);
}

const struct gospect_waits_info *gospect_waits_info(const struct gospect_waits *w)
{
	return &w->info;
}

struct gospect_error *gospect_waits_write(const struct gospect_waits *w, enum gospect_format format,
					  struct gospect_sink sink)
{
	struct sink_stream out;
	struct error *err;

	if (format != GOSPECT_TEXT && format != GOSPECT_JSON && format != GOSPECT_DOT)
		return error_out(error_format(
			ERROR_USAGE,
			"invalid format %d for waits; use GOSPECT_TEXT, GOSPECT_JSON or "
			"GOSPECT_DOT",
			format));
	err = sink_open(&sink, &out);
	if (err)
		return error_out(err);
	if (format == GOSPECT_TEXT)
		wait_graph_write_text(w->waits, out.file);
	else if (format == GOSPECT_JSON)
		wait_graph_write_json(w->waits, out.file);
	else
		wait_graph_write_dot(w->waits, out.file);
	return error_out(sink_close(&out, NULL));
}
