#include "gotrace/perfetto_names.h"

#include <string.h>

enum { MAX_FRAMES = 128 };

/* The lowest bits of an interned event name's number: where the name comes from. */
enum name_kind { NAME_OF_TEXT, NAME_FIXED, NAME_OF_GOROUTINE, NAME_OF_REQUEST };
#define NAME(kind, number) ((uint64_t)(number) << 2 | (kind))

/* The same for the texts of arguments. */
enum value_kind { VALUE_OF_TEXT, VALUE_OF_STACK };
#define VALUE(kind, number) ((uint64_t)(number) << 1 | (kind))

static const char *const fixed_names[PERFETTO_NAMES] = {
	[NAME_RUNNING] = "running",
	[NAME_RUNNABLE] = "runnable",
	[NAME_WAITING] = "waiting",
	[NAME_SYSCALL] = "syscall",
	[NAME_NOT_KNOWN] = "?",
	[NAME_NOT_TRACED] = "not traced",
	[NAME_CREATES] = "go",
	[NAME_UNBLOCKS] = "unblock",
	[NAME_LABELS] = "labels",
	[NAME_COLLECTS] = "GC",
	[NAME_ASSISTS] = "GC mark assist",
};

uint64_t perfetto_fixed_name(struct trace_writer *w, enum perfetto_name name)
{
	const char *text = fixed_names[name];
	uint64_t number = NAME(NAME_FIXED, name);

	if (w->fixed[name] != w->generation)
		packets_intern(&w->packets, TABLE_EVENT_NAMES, number, text, strlen(text));
	w->fixed[name] = w->generation;
	return number;
}

/* False: this generation has it already. */
static bool is_new(struct trace_writer *w, struct used *used, uint32_t number)
{
	if (used_find(used, number))
		return false;
	w->failed |= !used_add(used, number, &w->ids);
	return true;
}

uint64_t perfetto_text_name(struct trace_writer *w, uint64_t text)
{
	uint64_t number = NAME(NAME_OF_TEXT, text);

	if (text == TRACE_TEXT_LOST)
		return perfetto_fixed_name(w, NAME_NOT_TRACED);
	if (!texts_length(w->options.texts, text))
		return perfetto_fixed_name(w, NAME_NOT_KNOWN);
	if (is_new(w, &w->names, text))
		packets_intern(&w->packets, TABLE_EVENT_NAMES, number,
			       texts_get(w->options.texts, text),
			       texts_length(w->options.texts, text));
	return number;
}

uint64_t perfetto_labels(struct trace_writer *w, uint32_t text)
{
	uint64_t number = VALUE(VALUE_OF_TEXT, text);

	if (!texts_length(w->options.texts, text))
		return 0;
	if (is_new(w, &w->values, text))
		packets_intern(&w->packets, TABLE_TEXTS, number, texts_get(w->options.texts, text),
			       texts_length(w->options.texts, text));
	return number;
}

static void make_stack_text(struct trace_writer *w, uint64_t number)
{
	struct trace_frame frames[MAX_FRAMES];
	struct stack stack = stacks_get(w->options.stacks, number);
	size_t max = w->options.depth < MAX_FRAMES ? w->options.depth : MAX_FRAMES, count = 0;

	w->failed |= !trace_symbols_stack(&w->symbols, &stack, frames, max, &count);
	strbuf_reset(&w->text);
	for (size_t i = 0; i < count; i++) {
		if (i)
			strbuf_addc(&w->text, '\n');
		strbuf_adds(&w->text, intern_get(&w->symbols.names, frames[i].function));
	}
	if (!count)
		strbuf_adds(&w->text, "?");
	w->failed |= w->text.failed;
}

uint64_t perfetto_stack(struct trace_writer *w, uint64_t number)
{
	if (!number || !w->options.depth)
		return 0;
	if (is_new(w, &w->stacks, number)) {
		make_stack_text(w, number);
		packets_intern(&w->packets, TABLE_TEXTS, VALUE(VALUE_OF_STACK, number),
			       w->text.data, w->text.length);
	}
	return VALUE(VALUE_OF_STACK, number);
}

uint64_t perfetto_name_again(struct trace_writer *w, uint64_t name)
{
	uint64_t number = name >> 2;

	return (name & 3) == NAME_FIXED ? perfetto_fixed_name(w, number)
					: perfetto_text_name(w, number);
}

const char *perfetto_start_function(struct trace_writer *w, uint64_t pc, uint64_t *ret_number)
{
	struct trace_frame frame;

	*ret_number = 0;
	if (pc)
		pc = pclntab_wrapped(w->options.functions, pc);
	if (!pc || !trace_symbols_function(&w->symbols, pc, &frame))
		return "";
	*ret_number = pc;
	return intern_get(&w->symbols.names, frame.function);
}

const char *perfetto_goroutine_text(struct trace_writer *w, const struct life *life)
{
	uint64_t number;
	const char *function = perfetto_start_function(w, life->start_pc, &number);

	strbuf_reset(&w->name);
	strbuf_addc(&w->name, 'G');
	strbuf_addu(&w->name, life->g);
	if (*function)
		strbuf_addc(&w->name, ' ');
	strbuf_adds(&w->name, function);
	w->failed |= w->name.failed;
	return w->name.data;
}

uint64_t perfetto_goroutine_name(struct trace_writer *w, struct life *life)
{
	uint64_t number = NAME(NAME_OF_GOROUTINE, life->number);

	if (life->named != w->generation) {
		const char *text = perfetto_goroutine_text(w, life);

		packets_intern(&w->packets, TABLE_EVENT_NAMES, number, text, strlen(text));
	}
	life->named = w->generation;
	return number;
}

uint64_t perfetto_request_name(struct trace_writer *w, uint64_t request)
{
	uint64_t number = NAME(NAME_OF_REQUEST, request);

	packets_intern(&w->packets, TABLE_EVENT_NAMES, number, w->text.data, w->text.length);
	return number;
}

void perfetto_forget_names(struct trace_writer *w)
{
	used_clear(&w->names);
	used_clear(&w->values);
	used_clear(&w->stacks);
	w->ids = 0;
}

static void mark_name(uint64_t name, struct texts *texts)
{
	if (name && (name & 3) == NAME_OF_TEXT)
		texts_mark(texts, name >> 2);
}

static void mark(const struct used *used, struct texts *texts)
{
	for (size_t i = 0; i < used->count; i++)
		texts_mark(texts, used->numbers[i]);
}

/* Within a generation a number has one text. */
void perfetto_mark_texts(const struct trace_writer *w, struct texts *texts)
{
	mark(&w->names, texts);
	mark(&w->values, texts);
	for (size_t i = 0; i < w->lives.capacity; i++) {
		const struct life *life = (const struct life *)(uintptr_t)w->lives.slots[i].value;

		if (w->lives.slots[i].key == MAP_NO_KEY || !life)
			continue;
		texts_mark(texts, life->labels);
		mark_name(life->state, texts);
		mark_name(life->again, texts);
	}
}
