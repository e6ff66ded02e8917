#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "cli/report.h"
#include "gotrace/label_text.h"
#include "gotrace/trace_reader.h"
#include "profile/symbols.h"
#include "requests/stretches.h"

/* Of a sample. */
#define MAX_LABELS 256

/* The words of stacks are numbers of frames, behind the pseudo words. */
#define FIRST_WORD (STACK_PC_LAST_PSEUDO + 1)

struct filling {
	struct report_file *file;
	uint64_t *pcs;
	size_t capacity;
	struct profile_label labels[MAX_LABELS];
	struct stretches stretches;
};

static enum profile_state state_of(enum trace_status status)
{
	switch (status) {
	case TRACE_RUNNING:
		return PROFILE_RUNNING;
	case TRACE_RUNNABLE:
		return PROFILE_RUNNABLE;
	case TRACE_IN_SYSCALL:
		return PROFILE_SYSCALL;
	default:
		return PROFILE_WAITING;
	}
}

/* A trace says where a goroutine stood when it stopped, not where it was while it ran: then only
 * its start function is known. */
static struct error *fill_stack(struct filling *f, const struct span *span,
				struct profile_sample *sample)
{
	size_t count;
	const uint32_t *frames = span_stack(&f->file->tables, span->stack, &count);
	bool runs = span->state == TRACE_RUNNING;

	if (!array_reserve(&f->pcs, &f->capacity, count + 2))
		return &error_no_memory;
	if (runs || !count)
		f->pcs[sample->depth++] = runs ? STACK_PC_RUNNING : STACK_PC_UNKNOWN;
	for (size_t i = runs && count ? count - 1 : 0; i < count; i++)
		f->pcs[sample->depth++] = FIRST_WORD + frames[i];
	sample->pcs = f->pcs;
	return NULL;
}

/* *ret_wanted: it has the one that is wanted. */
static struct error *fill_labels(struct filling *f, const struct span *span,
				 struct profile_sample *sample, bool *ret_wanted)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT, value = STRBUF_INIT;
	const char *line = intern_get(&f->file->tables.texts, span->labels);
	const struct report_wish *wish = &f->file->wish;
	struct intern *strings = &f->file->profile.profile->strings;
	struct profile_label *l = f->labels;

	*ret_wanted = !wish->label;
	if (span_is_system(&f->file->tables, span))
		return NULL;
	while (l < f->labels + MAX_LABELS && label_text_next(&line, &key, &value)) {
		l->key = utf8_intern(strings, key.data, key.length);
		l->value = utf8_intern(strings, value.data, value.length);
		if (key.failed || value.failed || l->key == INTERN_FAILED ||
		    l->value == INTERN_FAILED)
			return &error_no_memory;
		*ret_wanted |= wish->label && !strcmp(key.data, wish->label) &&
			       !strcmp(value.data, wish->value);
		l++;
	}
	sample->labels = f->labels;
	sample->label_count = l - f->labels;
	return NULL;
}

static struct error *add_sample(struct filling *f, const struct span *span)
{
	struct profile *p = f->file->profile.profile;
	struct profile_sample sample = {
		.state = state_of(span->state),
		.count = 1,
		.wall_ns = span->end - span->begin,
	};
	struct error *err = fill_stack(f, span, &sample);
	bool wanted = true;

	if (!err && f->file->wish.labels)
		err = fill_labels(f, span, &sample, &wanted);
	if (err || !wanted)
		return err;
	sample.cpu_ns = span->state == TRACE_RUNNING ? sample.wall_ns : 0;
	if (span->state == TRACE_WAITING)
		sample.wait = intern_string(&p->strings,
					    intern_get(&f->file->tables.texts, span->reason));
	if (sample.wait == INTERN_FAILED)
		return &error_no_memory;
	return profile_add(p, &sample);
}

static struct error *add_span(void *arg, const struct span *span)
{
	struct filling *f = arg;
	const struct report_wish *wish = &f->file->wish;
	struct error *err = NULL;

	if (wish->key)
		err = requests_add(&f->file->requests, &f->file->tables, span);
	else if (wish->root)
		err = stretches_add(&f->stretches, &f->file->tables, span);
	if (err || wish->no_profile || span->moment)
		return err;
	err = add_sample(f, span);
	return err ? err : summary_add(&f->file->summary, span);
}

static size_t frames_of(const void *functions, uint64_t word, struct go_frame *ret, size_t max)
{
	const struct span_tables *tables = functions;
	struct span_frame frame = span_frame(tables, word - FIRST_WORD);

	if (!max)
		return 0;
	ret[0] = (struct go_frame){.function = intern_get(&tables->texts, frame.function),
				   .file = intern_get(&tables->texts, frame.file),
				   .line = frame.line};
	return 1;
}

static struct error *read_spans(struct trace_reader *reader, struct report_file *ret)
{
	struct filling filling = {.file = ret, .stretches = {.root = ret->wish.root}};
	struct spans_options options = {add_span, &filling, .calls = ret->wish.root};
	struct error *err;

	ret->requests.key = ret->wish.key;
	ret->requests.per = ret->wish.per;
	filling.stretches.requests = &ret->requests;
	err = spans_read(reader, &options, &ret->tables, &ret->duration_ns);
	if (!err)
		err = stretches_complete(&filling.stretches);
	free(filling.pcs);
	stretches_release(&filling.stretches);
	return err;
}

struct error *report_read_trace(const void *bytes, size_t size, struct report_file *ret)
{
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	struct symbol_source source = {frames_of, &ret->tables};
	struct error *err;

	ret->is_trace = true;
	ret->profile.profile = profile_create();
	err = ret->profile.profile ? trace_reader_create(bytes, size, &reader) : &error_no_memory;
	if (!err)
		err = read_spans(reader, ret);
	if (err)
		return err;
	if (trace_reader_is_truncated(reader))
		say("%s is truncated within a generation: the table covers the time before",
		    ret->path);
	summary_complete(&ret->summary);
	requests_complete(&ret->requests, ret->duration_ns);
	ret->profile.profile->duration_ns = ret->duration_ns;
	err = profile_add_comment(ret->profile.profile, "gospect %s, from an execution trace (%s)",
				  GOSPECT_VERSION, trace_reader_header(reader));
	return err ? err : symbols_create(ret->profile.profile, &source, &ret->profile.symbols);
}
