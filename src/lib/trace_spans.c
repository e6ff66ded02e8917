#include "lib/trace_spans.h"

#include <stdio.h>

#include "base/array.h"
#include "gotrace/trace_reader.h"
#include "lib/stack.h"
#include "profile/profile_symbols.h"
#include "requests/perfetto_spans.h"

/* The words of stacks are numbers of frames, behind the pseudo words. */
#define FIRST_WORD (STACK_PC_LAST_PSEUDO + 1)

static struct error *must_check read_go(const void *bytes, size_t size,
					const struct trace_spans_options *options,
					struct span_tables *tables, uint64_t *ret_duration,
					bool *ret_truncated)
{
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	struct error *err = trace_reader_create(bytes, size, &reader);

	if (!err)
		err = spans_read(reader, &options->spans, tables, ret_duration);
	if (err)
		return err;
	*ret_truncated = trace_reader_is_truncated(reader);
	if (options->header)
		snprintf(options->header, 32, "%s", trace_reader_header(reader));
	return NULL;
}

static struct error *must_check read_perfetto(const void *bytes, size_t size,
					      const struct trace_spans_options *options,
					      struct span_tables *tables, uint64_t *ret_duration,
					      bool *ret_truncated)
{
	_cleanup_perfetto_reader_ struct perfetto_reader *reader = NULL;
	struct error *err = perfetto_reader_create(bytes, size, &reader);

	if (!err)
		err = perfetto_spans_read(reader, &options->spans, tables, ret_duration);
	if (err)
		return err;
	*ret_truncated = perfetto_reader_is_truncated(reader);
	if (options->header)
		snprintf(options->header, 32, "Perfetto");
	return NULL;
}

struct error *trace_spans_read(const void *bytes, size_t size,
			       const struct trace_spans_options *options,
			       struct span_tables *tables, uint64_t *ret_duration)
{
	bool truncated = false;
	struct error *err =
		perfetto_is(bytes, size)
			? read_perfetto(bytes, size, options, tables, ret_duration, &truncated)
			: read_go(bytes, size, options, tables, ret_duration, &truncated);

	if (!err && truncated)
		remark(&options->remark,
		       "%s is truncated within a generation: the table covers the time before",
		       options->name);
	return err;
}

enum gospect_state span_state(enum trace_status status)
{
	switch (status) {
	case TRACE_RUNNING:
		return GOSPECT_RUNNING;
	case TRACE_RUNNABLE:
		return GOSPECT_RUNNABLE;
	case TRACE_IN_SYSCALL:
		return GOSPECT_SYSCALL;
	default:
		return GOSPECT_WAITING;
	}
}

const struct gospect_stack *span_stack_of(struct arena *arena, const struct span_tables *tables,
					  uint32_t stack)
{
	size_t count;
	const uint32_t *frames = span_stack(tables, stack, &count);
	struct gospect_stack *given = stack_create(arena, count);

	for (size_t i = 0; given && i < count; i++) {
		struct span_frame frame = span_frame(tables, frames[i]);

		*stack_frame(given, i) = (struct gospect_frame){
			.function = intern_get(&tables->texts, frame.function),
			.file = intern_get(&tables->texts, frame.file),
			.line = (int32_t)frame.line,
		};
	}
	return given;
}

bool span_words(const struct span_tables *tables, uint32_t stack, bool runs, uint64_t **pcs,
		size_t *capacity, struct profile_sample *sample)
{
	size_t count;
	const uint32_t *frames = span_stack(tables, stack, &count);

	if (!array_reserve(pcs, capacity, count + 2))
		return false;
	sample->depth = 0;
	if (runs || !count)
		(*pcs)[sample->depth++] = runs ? STACK_PC_RUNNING : STACK_PC_UNKNOWN;
	for (size_t i = runs && count ? count - 1 : 0; i < count; i++)
		(*pcs)[sample->depth++] = FIRST_WORD + frames[i];
	sample->pcs = *pcs;
	return true;
}

size_t span_word_frames(const void *functions, uint64_t word, struct go_frame *ret, size_t max)
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
