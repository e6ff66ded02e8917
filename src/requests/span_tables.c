#include "requests/span_tables.h"

#include <string.h>

enum { MAX_FRAMES = 255 };

uint32_t filling_text(struct tables_filling *f, const char *text)
{
	uint32_t number = intern_string(&f->tables->texts, text);

	if (number != INTERN_FAILED)
		return number;
	f->error = f->error ?: &error_no_memory;
	return 0;
}

static uint32_t add_frame(struct tables_filling *f, const struct trace_reader_frame *from)
{
	struct span_frame frame = {filling_text(f, from->function), filling_text(f, from->file),
				   from->line};

	return intern_bytes(&f->tables->frames, &frame, sizeof(frame));
}

static uint32_t make_stack(struct tables_filling *f, uint64_t number)
{
	uint32_t frames[MAX_FRAMES], stack;
	size_t count;
	const struct trace_reader_frame *from = trace_reader_stack(f->reader, number, &count);

	if (!count)
		return 0;
	for (size_t i = 0; i < count; i++)
		frames[i] = add_frame(f, &from[i]);
	stack = intern_bytes(&f->tables->stacks, frames, count * sizeof(*frames));
	if (stack != INTERN_FAILED)
		return stack;
	f->error = f->error ?: &error_no_memory;
	return 0;
}

/* A stack is made once in a generation: a step of few bytes may name a large one. */
uint32_t filling_stack(struct tables_filling *f, uint64_t number)
{
	uint64_t *place;

	if (f->generation != trace_reader_generation(f->reader))
		map_release(&f->stacks);
	f->generation = trace_reader_generation(f->reader);
	place = number == MAP_NO_KEY ? NULL : map_at(&f->stacks, number);
	if (!place) {
		f->error = f->error ?: (number == MAP_NO_KEY ? NULL : &error_no_memory);
		return 0;
	}
	if (!*place)
		*place = make_stack(f, number) + 1ull;
	return *place - 1;
}

uint32_t filling_start(struct tables_filling *f, uint64_t number)
{
	size_t count;
	const struct trace_reader_frame *from = trace_reader_stack(f->reader, number, &count);

	return count ? filling_text(f, from[count - 1].function) : 0;
}

uint32_t filling_leaf(struct tables_filling *f, uint64_t number)
{
	size_t count;
	const struct trace_reader_frame *from = trace_reader_stack(f->reader, number, &count);

	return count ? filling_text(f, from[0].function) : 0;
}

void filling_release(struct tables_filling *f)
{
	map_release(&f->stacks);
}

const uint32_t *span_stack(const struct span_tables *tables, uint32_t stack, size_t *ret_count)
{
	const struct interned *in =
		stack < tables->stacks.count ? &tables->stacks.strings[stack] : NULL;

	*ret_count = in ? in->length / sizeof(uint32_t) : 0;
	return in ? (const uint32_t *)in->data : NULL;
}

struct span_frame span_frame(const struct span_tables *tables, uint32_t frame)
{
	struct span_frame ret = {0};

	if (frame < tables->frames.count && tables->frames.strings[frame].length == sizeof(ret))
		memcpy(&ret, tables->frames.strings[frame].data, sizeof(ret));
	return ret;
}

void span_tables_release(struct span_tables *tables)
{
	intern_release(&tables->texts);
	intern_release(&tables->frames);
	intern_release(&tables->stacks);
}
