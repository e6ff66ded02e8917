#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/report.h"
#include "profile/symbols.h"
#include "trace/trace_reader.h"

/* The words of stacks are numbers of frames, behind the pseudo words. */
#define FIRST_WORD (STACK_PC_LAST_PSEUDO + 1)

struct filling {
	struct report_file *file;
	uint64_t *pcs;
	size_t capacity;
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

static struct error *add_span(void *arg, const struct span *span)
{
	struct filling *f = arg;
	struct profile *p = f->file->profile.profile;
	struct profile_sample sample = {
		.state = state_of(span->state),
		.count = 1,
		.wall_ns = span->end - span->begin,
	};
	struct error *err = fill_stack(f, span, &sample);

	if (err)
		return err;
	sample.cpu_ns = span->state == TRACE_RUNNING ? sample.wall_ns : 0;
	if (span->state == TRACE_WAITING)
		sample.wait = intern_string(&p->strings,
					    intern_get(&f->file->tables.texts, span->reason));
	if (sample.wait == INTERN_FAILED)
		return &error_no_memory;
	err = profile_add(p, &sample);
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

struct error *report_read_trace(const void *bytes, size_t size, struct report_file *ret)
{
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	_cleanup_free_ uint64_t *pcs = NULL;
	struct filling filling = {.file = ret};
	struct spans_options options = {add_span, &filling};
	struct symbol_source source = {frames_of, &ret->tables};
	struct error *err;
	uint64_t duration;

	ret->is_trace = true;
	ret->profile.profile = profile_create();
	err = ret->profile.profile ? trace_reader_create(bytes, size, &reader) : &error_no_memory;
	if (!err)
		err = spans_read(reader, &options, &ret->tables, &duration);
	pcs = filling.pcs;
	if (err)
		return err;
	if (trace_reader_is_truncated(reader))
		say("%s ends within a generation: this is what came before it", ret->path);
	summary_complete(&ret->summary);
	ret->profile.profile->duration_ns = duration;
	err = profile_add_comment(ret->profile.profile, "gospect %s, from an execution trace (%s)",
				  GOSPECT_VERSION, trace_reader_header(reader));
	return err ? err : symbols_create(ret->profile.profile, &source, &ret->profile.symbols);
}
