#include "lib/profile_handle.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "lib/error_api.h"
#include "lib/sink.h"
#include "lib/stack.h"
#include "profile/merge.h"
#include "profile/sources.h"
#include "profile/stands_out.h"

struct gospect_profile *profile_new(void)
{
	_cleanup_profile_handle_ struct gospect_profile *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->profile = profile_create();
	return p->profile ? take_ptr(p) : NULL;
}

void gospect_profile_destroy(struct gospect_profile *p)
{
	if (!p)
		return;
	arena_release(&p->given);
	profile_symbols_destroy(p->symbols);
	profile_destroy(p->profile);
	free(p);
}

/* Without a preferred type it is the last one, as for pprof. */
static const char *value_name(const struct profile *p)
{
	uint32_t last = p->type_count ? p->types[p->type_count - 1].type : 0;

	return intern_get(&p->strings, p->preferred ? p->preferred : last);
}

void profile_describe(struct gospect_profile *p, bool has_functions)
{
	const struct profile *from = p->profile;

	p->info.command = from->command ? from->command : "";
	p->info.go_version = from->go_version ? from->go_version : "";
	p->info.start_ns = from->time_ns;
	p->info.duration_ns = from->duration_ns;
	p->info.period_ns = from->period_ns;
	p->info.has_functions = has_functions;
	p->info.unit = from->unit == PROFILE_BYTES ? GOSPECT_BYTES : GOSPECT_NANOSECONDS;
	p->info.value_name = value_name(from);
	p->info.samples = 0;
	for (size_t i = 0; i < from->count; i++)
		p->info.samples += from->samples[i].count;
}

struct error *profile_of_file(struct profile_file *file, struct gospect_profile **ret)
{
	struct gospect_profile *p = calloc(1, sizeof(*p));

	if (!p)
		return &error_no_memory;
	p->profile = take_ptr(file->profile);
	p->symbols = take_ptr(file->symbols);
	profile_describe(p, !file->raw);
	*ret = p;
	return NULL;
}

struct gospect_error *gospect_profile_read(const void *bytes, size_t size,
					   struct gospect_profile **ret)
{
	_cleanup_profile_file_ struct profile_file file = {0};
	struct error *err = profile_read(bytes, size, NULL, &file);

	return error_out(err ? err : profile_of_file(&file, ret));
}

struct gospect_error *gospect_profile_create(const char *command, struct gospect_profile **ret)
{
	_cleanup_profile_handle_ struct gospect_profile *p = profile_new();
	struct error *err = p ? merge_begin(p->profile, &p->symbols) : &error_no_memory;

	if (!err)
		p->profile->command = strdup(command);
	if (!err && !p->profile->command)
		err = &error_no_memory;
	if (err)
		return error_out(err);
	p->is_merged = true;
	profile_describe(p, true);
	*ret = take_ptr(p);
	return NULL;
}

struct gospect_error *gospect_profile_add(struct gospect_profile *p, const char *name,
					  const struct gospect_label *labels, size_t label_count,
					  const struct gospect_profile *from)
{
	_cleanup_free_ struct merge_label *given = calloc(label_count + 1, sizeof(*given));
	const struct merge_program program = {name, given, label_count};
	struct error *err = given ? NULL : &error_no_memory;

	if (!p->is_merged || p == from || !from->info.has_functions)
		return error_out(error_format(
			ERROR_USAGE,
			"gospect_profile_add() adds a profile with functions to one that "
			"gospect_profile_create() made"));
	for (size_t i = 0; !err && i < label_count; i++)
		given[i] = (struct merge_label){labels[i].key, labels[i].value};
	if (!err)
		err = merge_add(p->profile, p->symbols, &program, from->profile, from->symbols);
	arena_release(&p->given);
	p->samples = NULL;
	profile_describe(p, true);
	return error_out(err);
}

const struct gospect_profile_info *gospect_profile_info(const struct gospect_profile *p)
{
	return &p->info;
}

const char *gospect_profile_comment(const struct gospect_profile *p, size_t i)
{
	return i < p->profile->comment_count ? p->profile->comments[i] : NULL;
}

static const struct gospect_stack *give_stack(const struct profile_symbols *symbols,
					      const struct profile_sample *from,
					      struct arena *arena)
{
	_cleanup_free_ struct go_frame *frames = NULL;
	struct gospect_stack *stack;
	size_t most = 1, n;

	for (uint32_t i = 0; i < from->depth; i++) {
		const struct profile_location *at = profile_symbols_of(symbols, from->pcs[i]);

		most += at && at->count ? at->count : 1;
	}
	frames = calloc(most, sizeof(*frames));
	if (!frames)
		return NULL;
	profile_stack_frames(symbols, from, frames, most, &n);
	stack = stack_create(arena, n);
	for (size_t i = 0; stack && i < n; i++) {
		*stack_frame(stack, i) = frame_of(&frames[i], 0);
		if (!stack_frame(stack, i)->file)
			stack_frame(stack, i)->file = "";
	}
	return stack;
}

bool profile_give_sample(const struct profile *p, const struct profile_symbols *symbols,
			 const struct profile_sample *from, struct arena *arena,
			 struct gospect_sample *ret)
{
	struct gospect_label *labels = given_take(arena, (from->label_count + 1) * sizeof(*labels));

	*ret = (struct gospect_sample){
		.count = from->count,
		.wall_ns = from->wall_ns,
		.cpu_ns = from->cpu_ns,
		.idle_ns = from->idle_ns,
		.state = (enum gospect_state)from->state,
		.label_count = from->label_count,
		.labels = labels,
		.wait_reason = from->wait ? intern_get(&p->strings, from->wait) : "",
		.stack = give_stack(symbols, from, arena),
	};
	for (uint32_t i = 0; labels && i < from->label_count; i++) {
		labels[i].key = intern_get(&p->strings, from->labels[i].key);
		labels[i].value = intern_get(&p->strings, from->labels[i].value);
	}
	return labels && ret->stack;
}

static bool give_all(struct gospect_profile *p)
{
	size_t count = p->profile->count;
	struct gospect_sample *samples = given_take(&p->given, (count + 1) * sizeof(*samples));
	const struct gospect_sample **pointers =
		given_take(&p->given, (count + 1) * sizeof(*pointers));

	if (!samples || !pointers)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!profile_give_sample(p->profile, p->symbols, &p->profile->samples[i], &p->given,
					 &samples[i]))
			return false;
		pointers[i] = &samples[i];
	}
	p->samples = pointers;
	return true;
}

struct gospect_error *gospect_profile_samples(struct gospect_profile *p,
					      const struct gospect_sample *const **ret,
					      size_t *ret_count)
{
	if (!p->samples && !give_all(p)) {
		arena_release(&p->given);
		return error_out(&error_no_memory);
	}
	*ret = p->samples;
	*ret_count = p->profile->count;
	return NULL;
}

const struct profile_format *profile_format_of(enum gospect_format format)
{
	switch (format) {
	case GOSPECT_PPROF:
		return &profile_format_pprof;
	case GOSPECT_PPROF_IDLE:
		return &profile_format_pprof_whole;
	case GOSPECT_PPROF_CPU:
		return &profile_format_pprof_cpu;
	case GOSPECT_DEBUG_TEXT:
		return &profile_format_debug_text;
	case GOSPECT_FOLDED:
		return &profile_format_folded;
	case GOSPECT_FOLDED_STATE:
		return &profile_format_folded_state;
	case GOSPECT_SPEEDSCOPE:
		return &profile_format_speedscope;
	case GOSPECT_FIREFOX:
		return &profile_format_firefox;
	case GOSPECT_HTML:
		return &profile_format_html;
	default:
		return NULL;
	}
}

struct gospect_error *
gospect_profile_stands_out(const struct gospect_profile *p,
			   int (*sentence)(void *arg, const struct gospect_sentence *sentence),
			   void *arg)
{
	_cleanup_stands_out_ struct stands_out found = {0};
	struct error *err = stands_out_find(p->profile, p->symbols, &found);
	bool ended = false;

	for (size_t i = 0; !err && !ended && i < found.count; i++) {
		const struct sentence *s = &found.sentences[i];
		const struct gospect_sentence given = {
			.text = s->text,
			.function = s->focus,
			.wait = s->wait ? s->wait : "",
			.is_grave = i < found.grave,
			.is_idle = s->idle,
		};

		ended = sentence(arg, &given);
	}
	return error_out(err);
}

struct gospect_error *gospect_profile_subtract(struct gospect_profile *p,
					       const struct gospect_profile *before)
{
	struct error *err = profile_subtract(p->profile, before->profile);

	arena_release(&p->given);
	p->samples = NULL;
	if (err)
		return error_out(err);
	if (p->profile->time_ns > before->profile->time_ns)
		p->profile->duration_ns = p->profile->time_ns - before->profile->time_ns;
	profile_describe(p, p->info.has_functions);
	return NULL;
}

struct gospect_error *gospect_profile_add_sources(struct gospect_profile *p, const char *directory,
						  size_t *ret_files)
{
	return error_out(sources_find(p->profile, p->symbols, directory, ret_files));
}

struct gospect_error *gospect_profile_write_diff(const struct gospect_profile *before,
						 const struct gospect_profile *after,
						 struct gospect_sink sink)
{
	struct sink_stream out;
	struct error *err;

	if (!before->info.has_functions || !after->info.has_functions)
		return error_out(error_format(
			ERROR_USAGE,
			"cannot compare profiles of addresses; symbolize both profiles first"));
	err = sink_open(&sink, &out);
	if (!err)
		err = sink_close(&out, html_write_diff(before->profile, before->symbols,
						       after->profile, after->symbols, out.file));
	return error_out(err);
}

struct gospect_error *gospect_profile_write(const struct gospect_profile *p,
					    enum gospect_format format, struct gospect_sink sink)
{
	const struct profile_format *f = profile_format_of(format);
	struct sink_stream out;
	struct error *err;

	if (!f)
		return error_out(error_format(ERROR_USAGE,
					      "invalid profile format %d; see enum gospect_format",
					      format));
	if (!p->info.has_functions && !f->binary)
		return error_out(error_format(
			ERROR_USAGE,
			"cannot write a profile of addresses as %s: only pprof supports it; "
			"symbolize the profile first",
			f->name));
	err = sink_open(&sink, &out);
	if (!err)
		err = sink_close(&out, f->write(p->profile, p->symbols, out.file));
	return error_out(err);
}
