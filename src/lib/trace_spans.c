#include "lib/trace_spans.h"

#include <stdio.h>

#include "gotrace/trace_reader.h"
#include "lib/stack.h"

struct error *trace_spans_read(const void *bytes, size_t size,
			       const struct trace_spans_options *options,
			       struct span_tables *tables, uint64_t *ret_duration)
{
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	struct error *err = trace_reader_create(bytes, size, &reader);

	if (!err)
		err = spans_read(reader, &options->spans, tables, ret_duration);
	if (err)
		return err;
	if (trace_reader_is_truncated(reader))
		remark(&options->remark,
		       "%s is truncated within a generation: the table covers the time before",
		       options->name);
	if (options->header)
		snprintf(options->header, 32, "%s", trace_reader_header(reader));
	return NULL;
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
