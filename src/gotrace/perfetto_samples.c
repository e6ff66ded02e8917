#include "gotrace/perfetto_samples.h"

#include <string.h>

enum { MAX_FRAMES = 128 };

/* The numbers of the program's file, among mapping paths, and of its mapping. */
enum { PROGRAM = 1 };

/* The number of a text in a table; it is defined when it is new. */
static uint64_t intern_text(struct perfetto_samples *s, struct map *map, enum packet_table table,
			    uint32_t text)
{
	uint64_t *number = map_at(map, text);
	const char *bytes = intern_get(&s->symbols->names, text);

	if (!number) {
		s->failed = true;
		return 0;
	}
	if (!*number) {
		*number = map->count;
		packets_intern(s->packets, table, *number, bytes, strlen(bytes));
	}
	return *number;
}

/* Perfetto wants a mapping for each frame. */
static void define_program(struct perfetto_samples *s)
{
	const char *name = s->options->process;

	packets_intern(s->packets, TABLE_MAPPING_PATHS, PROGRAM, name, strlen(name));
	packets_mapping(s->packets, PROGRAM, PROGRAM);
}

static uint64_t intern_frame(struct perfetto_samples *s, const struct trace_frame *frame)
{
	uint64_t *known;
	struct packet_frame f = {.pc = frame->pc, .mapping = PROGRAM, .line = frame->line};

	if (!s->frames.count)
		define_program(s);
	known = map_at(&s->frames, frame->pc);
	if (!known) {
		s->failed = true;
		return 0;
	}
	if (!*known) {
		f.number = *known = s->frames.count;
		f.function = intern_text(s, &s->functions, TABLE_FUNCTION_NAMES, frame->function);
		f.file = intern_text(s, &s->files, TABLE_SOURCE_PATHS, frame->file);
		packets_frame(s->packets, &f);
	}
	return *known;
}

static void define_stack(struct perfetto_samples *s, uint32_t number, uint32_t id)
{
	struct stack stack = trace_cpu_stack(s->options->cpu_stacks, number);
	unsigned int depth = s->options->depth;
	struct trace_frame frames[MAX_FRAMES];
	uint64_t numbers[MAX_FRAMES];
	size_t count = 0;

	s->failed |= !trace_symbols_stack(s->symbols, &stack, frames,
					  depth < MAX_FRAMES ? depth : MAX_FRAMES, &count);
	/* The outermost comes first. */
	for (size_t i = 0; i < count; i++)
		numbers[i] = intern_frame(s, &frames[count - 1 - i]);
	packets_callstack(s->packets, id, numbers, count);
}

void perfetto_samples_add(struct perfetto_samples *s, const struct trace_step *step)
{
	uint32_t number = step->arg[1], id = used_find(&s->stacks, number);

	if (!s->options->cpu_stacks || !s->options->depth)
		return;
	if (!id) {
		id = used_add(&s->stacks, number, &s->stack_ids);
		s->failed |= !id;
		define_stack(s, number, id);
	}
	packets_sample(s->packets, &(struct packet_sample){step->ns, s->options->pid, step->m, id});
}

void perfetto_samples_new_generation(struct perfetto_samples *s)
{
	used_clear(&s->stacks);
	s->stack_ids = 0;
	map_release(&s->functions);
	map_release(&s->files);
	map_release(&s->frames);
}

void perfetto_samples_release(struct perfetto_samples *s)
{
	perfetto_samples_new_generation(s);
	used_release(&s->stacks);
}
