/*
 * Where the resident memory is. The tree is also a profile: a leaf is a sample, and its stack are
 * the names on the way to the root.
 */
#include <gospect/footprint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "footprint/footprint.h"
#include "lib/error_api.h"
#include "lib/options.h"
#include "lib/profile_handle.h"
#include "lib/sink.h"
#include "lib/target_handle.h"
#include "lib/unwind.h"
#include "profile/rebuild.h"

struct gospect_footprint {
	struct footprint footprint;
	struct gospect_footprint_info info;
	char *command, *go_version;
	uint64_t time_ns;
	uint32_t rows;
};

void gospect_footprint_destroy(struct gospect_footprint *m)
{
	if (!m)
		return;
	footprint_release(&m->footprint);
	free(m->command);
	free(m->go_version);
	free(m);
}

static void cleanup_footprint_handle(struct gospect_footprint **m)
{
	gospect_footprint_destroy(*m);
}

/* ---- taking it ---- */

static void remark_limits(const struct gospect_target *t, const struct footprint *f)
{
	if (f->is_core)
		remark(&t->remark,
		       "a core file does not say which pages were resident: the tree has what was "
		       "mapped and is in the file");
	if (!f->is_exact)
		remark(&t->remark,
		       "the kernel does not show which pages are resident "
		       "(/proc/%d/pagemap): parts of a mapping share its memory evenly",
		       f->pid);
	if (f->changed)
		remark(&t->remark,
		       "%lu spans changed while they were read; their memory counts as free",
		       f->changed);
}

static struct error *must_check take(struct gospect_target *t, struct gospect_footprint *m)
{
	struct debug_frame *frames = NULL;
	struct unwinding unwind;
	struct error *err = target_check_cancel(t);

	if (err)
		return err;
	target_remark_stopped(t);
	err = unwind_open(GOSPECT_UNWIND_PCSP, t->image, &frames, &unwind);
	if (!err)
		err = footprint_take(t->target, t->image, t->layout, &unwind, t->cancel,
				     &m->footprint);
	debug_frame_close(frames);
	if (err)
		return err == &error_stopped ? err : target_explain(t->target, err);
	m->time_ns = m->footprint.is_core ? 0 : clock_read(CLOCK_REALTIME);
	m->command = strdup(t->info.exe ?: "");
	m->go_version = strdup(t->info.go_version ?: "");
	if (!m->command || !m->go_version)
		return &error_no_memory;
	remark_limits(t, &m->footprint);
	return NULL;
}

static void describe(struct gospect_footprint *m)
{
	const struct footprint *f = &m->footprint;

	m->info = (struct gospect_footprint_info){
		.resident_bytes = f->resident,
		.cgroup_bytes = f->charge,
		.cgroup_limit = f->limit,
		.goroutines = f->goroutines,
		.heap_goal = f->gc.goal > GC_MOST_GOAL ? UINT64_MAX : f->gc.goal,
		.heap_bytes = f->gc.live,
		.swapped_bytes = f->swapped,
	};
}

struct gospect_error *gospect_footprint_take(struct gospect_target *t,
					     const struct gospect_footprint_options *given,
					     struct gospect_footprint **ret)
{
	_cleanup_(cleanup_footprint_handle) struct gospect_footprint *m = calloc(1, sizeof(*m));
	struct gospect_footprint_options options = {0};
	struct error *err;

	if (!m)
		return error_out(&error_no_memory);
	err = options_take(given, &options, sizeof(options), "gospect_footprint_options");
	if (!err)
		err = take(t, m);
	if (err)
		return error_out(err);
	m->rows = options.rows;
	describe(m);
	*ret = take_ptr(m);
	return NULL;
}

const struct gospect_footprint_info *gospect_footprint_info(const struct gospect_footprint *m)
{
	return &m->info;
}

/* ---- as a profile ---- */

/* From the leaf to the root. */
static struct error *must_check add_leaf(struct rebuild *r, const struct memory_tree *tree,
					 uint32_t leaf)
{
	struct profile_sample sample = {.count = 1, .wall_ns = tree->items[leaf].bytes};
	struct error *err = NULL;

	for (uint32_t i = leaf; !err && i != TREE_NONE; i = tree->items[i].parent)
		err = rebuild_frame(r, memory_node_name(tree, i), strlen(memory_node_name(tree, i)),
				    "", 0);
	return err ? err : rebuild_sample(r, &sample);
}

static struct error *must_check add_tree(struct rebuild *r, const struct memory_tree *tree,
					 uint32_t node)
{
	struct error *err = NULL;

	if (tree->items[node].first == TREE_NONE)
		return tree->items[node].bytes ? add_leaf(r, tree, node) : NULL;
	for (uint32_t i = tree->items[node].first; !err && i != TREE_NONE; i = tree->items[i].next)
		err = add_tree(r, tree, i);
	return err;
}

static struct error *must_check add_values(struct profile *p)
{
	struct error *err = profile_add_type(p, "resident_space", "bytes");

	if (!err && !array_reserve(&p->values, &p->value_capacity, p->count + 1))
		err = &error_no_memory;
	if (err)
		return err;
	p->unit = PROFILE_BYTES;
	p->period_type = p->types[0];
	p->period_ns = 1;
	for (size_t i = 0; i < p->count; i++)
		p->values[i].values[0] = (int64_t)p->samples[i].wall_ns;
	return NULL;
}

static struct error *must_check write_profile(const struct gospect_footprint *m,
					      const struct profile_format *format, FILE *out)
{
	_cleanup_profile_file_ struct profile_file file = {0};
	_cleanup_rebuild_ struct rebuild r;
	struct error *err = rebuild_init(&r);

	if (!err)
		err = add_tree(&r, &m->footprint.tree, TREE_ROOT);
	if (!err)
		err = add_values(r.profile);
	if (err)
		return err;
	r.profile->time_ns = m->time_ns;
	r.profile->command = strdup(m->command);
	r.profile->go_version = strdup(m->go_version);
	if (!r.profile->command || !r.profile->go_version)
		return &error_no_memory;
	err = rebuild_finish(&r, &file);
	return err ? err : format->write(file.profile, file.symbols, out);
}

/* ---- writing ---- */

static struct error *must_check write_as(const struct gospect_footprint *m,
					 enum gospect_format format, FILE *out)
{
	switch (format) {
	case GOSPECT_TEXT:
		return footprint_write_text(&m->footprint, m->rows, out);
	case GOSPECT_JSON:
		return footprint_write_json(&m->footprint, out);
	case GOSPECT_HTML:
		return footprint_write_page(&m->footprint, out);
	case GOSPECT_PPROF:
	case GOSPECT_FOLDED:
	case GOSPECT_SPEEDSCOPE:
		return write_profile(m, profile_format_of(format), out);
	default:
		return error_format(ERROR_USAGE,
				    "invalid format %d for memory; use GOSPECT_TEXT, GOSPECT_JSON, "
				    "GOSPECT_HTML, GOSPECT_PPROF, GOSPECT_FOLDED or "
				    "GOSPECT_SPEEDSCOPE",
				    format);
	}
}

struct gospect_error *gospect_footprint_write(const struct gospect_footprint *m,
					      enum gospect_format format, struct gospect_sink sink)
{
	struct sink_stream out;
	struct error *err = sink_open(&sink, &out);

	if (err)
		return error_out(err);
	return error_out(sink_close(&out, write_as(m, format, out.file)));
}
