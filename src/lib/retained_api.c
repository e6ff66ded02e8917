/* Retained memory for users of the library. The tree of holders is also a profile: the objects that
 * a holder does not share with one below it are a sample, whose stack is the holders above it. */
#include <gospect/retained.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "lib/error_api.h"
#include "lib/options.h"
#include "lib/profile_handle.h"
#include "lib/sink.h"
#include "lib/target_handle.h"
#include "profile/rebuild.h"
#include "retained/retained.h"

/* Strings that are there more than once. */
#define MOST_STRINGS 100

struct gospect_retained {
	struct retained *retained;
	struct gospect_retained_info info;
	char *command, *go_version;
	uint64_t time_ns;
	uint32_t rows;
};

void gospect_retained_destroy(struct gospect_retained *r)
{
	if (!r)
		return;
	retained_destroy(r->retained);
	free(r->command);
	free(r->go_version);
	free(r);
}

static void cleanup_retained_handle(struct gospect_retained **r)
{
	gospect_retained_destroy(*r);
}

/* ---- finding ---- */

static void say_what_is_missing(const struct gospect_target *t, const struct retained *r)
{
	if (r->graph.unread)
		remark(&t->remark,
		       "%llu bytes of the heap and of stacks could not be read; objects that only they lead to are missing",
		       (unsigned long long)r->graph.unread);
	if (!r->graph.roots.variables)
		remark(&t->remark,
		       "the program has no DWARF: variables have no names, and objects that only they lead to have no types; name an unstripped build with --exe");
	if (r->strings.forgotten)
		remark(&t->remark,
		       "too many different strings to count them all: some copies are missing");
}

static struct error *must_check find(struct gospect_target *t, struct gospect_retained *r)
{
	const struct retained_options how = {.stop = t->cancel,
					     .is_exact = target_stands_still(t->target),
					     .strings = MOST_STRINGS};
	struct error *err = target_check_cancel(t);

	if (err)
		return err;
	target_remark_stopped(t);
	r->time_ns = target_core(t->target) ? 0 : clock_read(CLOCK_REALTIME);
	err = retained_find(t->target, t->image, t->layout, &how, &r->retained);
	if (err)
		return err == &error_stopped ? err : target_explain(t->target, err);
	r->command = strdup(t->info.exe ?: "");
	r->go_version = strdup(t->info.go_version ?: "");
	if (!r->command || !r->go_version)
		return &error_no_memory;
	r->retained->command = r->command;
	r->retained->pid = t->info.pid;
	say_what_is_missing(t, r->retained);
	r->info = (struct gospect_retained_info){
		.objects = r->retained->graph.count,
		.bytes = r->retained->graph.bytes,
		.heap_bytes = r->retained->graph.spans.bytes,
		.error_percent = retained_error_percent(r->retained),
	};
	return NULL;
}

struct gospect_error *gospect_retained_find(struct gospect_target *t,
					    const struct gospect_retained_options *given,
					    struct gospect_retained **ret)
{
	_cleanup_(cleanup_retained_handle) struct gospect_retained *r = calloc(1, sizeof(*r));
	struct gospect_retained_options options = {0};
	struct error *err;

	if (!r)
		return error_out(&error_no_memory);
	err = options_take(given, &options, sizeof(options), "gospect_retained_options");
	if (!err)
		err = find(t, r);
	if (err)
		return error_out(err);
	r->rows = options.rows;
	*ret = take_ptr(r);
	return NULL;
}

const struct gospect_retained_info *gospect_retained_info(const struct gospect_retained *r)
{
	return &r->info;
}

/* ---- as a profile ---- */

static struct error *must_check add_sample(struct rebuild *b, const struct retained *r,
					   uint32_t holder)
{
	const struct holder *h = &r->holders.items[holder];
	struct profile_sample sample = {.count = h->count, .wall_ns = h->bytes};
	struct error *err = NULL;

	for (uint32_t i = holder; i && !err; i = r->holders.items[i].parent) {
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		retained_add_holder(r, i, &name);
		err = name.failed ? &error_no_memory
				  : rebuild_frame(b, name.data, name.length, "", 0);
	}
	return err ? err : rebuild_sample(b, &sample);
}

static struct error *must_check add_values(struct profile *p)
{
	struct error *err = profile_add_type(p, "inuse_objects", "count");

	if (!err)
		err = profile_add_type(p, "inuse_space", "bytes");
	if (!err && !array_reserve(&p->values, &p->value_capacity, p->count + 1))
		err = &error_no_memory;
	if (err)
		return err;
	p->unit = PROFILE_BYTES;
	p->preferred = p->types[1].type;
	p->period_type = p->types[1];
	p->period_ns = 1;
	for (size_t i = 0; i < p->count; i++) {
		p->values[i].values[0] = (int64_t)p->samples[i].count;
		p->values[i].values[1] = (int64_t)p->samples[i].wall_ns;
	}
	return NULL;
}

static struct error *must_check add_error(struct profile *p, const struct retained *r)
{
	if (r->is_exact)
		return profile_add_comment(p, "exact: the program did not run while it was read");
	return profile_add_comment(p,
				   "estimate: %.2g %% of the pointers changed while they were read",
				   retained_error_percent(r));
}

static struct error *must_check write_profile(const struct gospect_retained *r,
					      const struct profile_format *format, FILE *out)
{
	_cleanup_profile_file_ struct profile_file file = {0};
	_cleanup_rebuild_ struct rebuild b;
	struct error *err = rebuild_init(&b);

	for (uint32_t i = 1; i < r->retained->holders.count && !err; i++)
		if (r->retained->holders.items[i].bytes)
			err = add_sample(&b, r->retained, i);
	if (!err)
		err = add_values(b.profile);
	if (!err)
		err = add_error(b.profile, r->retained);
	if (err)
		return err;
	b.profile->time_ns = r->time_ns;
	b.profile->command = strdup(r->command);
	b.profile->go_version = strdup(r->go_version);
	if (!b.profile->command || !b.profile->go_version)
		return &error_no_memory;
	err = rebuild_finish(&b, &file);
	return err ? err : format->write(file.profile, file.symbols, out);
}

/* ---- writing ---- */

static struct error *must_check write_as(struct gospect_retained *r, enum gospect_format format,
					 FILE *out)
{
	switch (format) {
	case GOSPECT_TEXT:
		return retained_write_text(r->retained, r->rows, out);
	case GOSPECT_JSON:
		return retained_write_json(r->retained, out);
	case GOSPECT_HTML:
		return retained_write_page(r->retained, out);
	case GOSPECT_HPROF:
		return retained_write_hprof(r->retained, out);
	case GOSPECT_PPROF:
	case GOSPECT_FOLDED:
	case GOSPECT_SPEEDSCOPE:
		return write_profile(r, profile_format_of(format), out);
	default:
		return error_format(ERROR_USAGE,
				    "invalid format %d for retained memory; use GOSPECT_TEXT, "
				    "GOSPECT_JSON, GOSPECT_HTML, GOSPECT_HPROF, GOSPECT_PPROF, "
				    "GOSPECT_FOLDED or GOSPECT_SPEEDSCOPE",
				    format);
	}
}

struct gospect_error *gospect_retained_write(struct gospect_retained *r, enum gospect_format format,
					     struct gospect_sink sink)
{
	struct sink_stream out;
	struct error *err = sink_open(&sink, &out);

	if (err)
		return error_out(err);
	return error_out(sink_close(&out, write_as(r, format, out.file)));
}
