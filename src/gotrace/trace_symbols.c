#include "gotrace/trace_symbols.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* The most calls that are inlined into one another at one address. */
#define MAX_INLINED 64

/* Viewers use the first frame that they see at an address for all. So inlined frames get addresses
 * that no code has. */
#define INLINED_SHIFT 56

static bool add_frame(struct trace_symbols *symbols, uint64_t pc, const struct go_frame *frame)
{
	struct trace_frame *f;

	if (!array_reserve(&symbols->frames, &symbols->capacity, symbols->count + 1))
		return false;
	f = &symbols->frames[symbols->count++];
	*f = (struct trace_frame){.pc = pc,
				  .function = intern_string(&symbols->names, frame->function),
				  .file = intern_string(&symbols->names, frame->file),
				  .line = frame->line > 0 ? frame->line : 1,
				  .wrapper = frame->wrapper};
	return f->function != INTERN_FAILED && f->file != INTERN_FAILED;
}

/* The limit of kept words; a program has fewer addresses of calls. A hostile one may name each of
 * its bytes. */
#define MAX_KEPT (1u << 19)

/* The reader requires a file for each frame. */
static struct go_frame outside_frame(void)
{
	struct go_frame frame = {.function = "[unknown]"};

	pclntab_frames(NULL, STACK_PC_OUTSIDE, &frame, 1);
	frame.file = "?";
	frame.line = 1;
	return frame;
}

static size_t c_frame(const struct trace_symbols *symbols, uint64_t word, struct go_frame *ret)
{
	const char *file = "", *function = NULL;

	if (symbols->c_functions)
		function = c_functions_find(symbols->c_functions, word, &file);
	if (!function)
		return 0;
	*ret = (struct go_frame){.function = function, .file = file, .line = 1};
	return 1;
}

static bool symbolize(struct trace_symbols *symbols, uint64_t word, uint64_t *slot)
{
	struct go_frame frames[MAX_INLINED];
	size_t count = pclntab_frames(symbols->functions, word, frames, MAX_INLINED), first;
	bool is_outside;

	if (!count)
		count = c_frame(symbols, word, frames);
	is_outside = !count;
	if (is_outside)
		frames[count++] = outside_frame();
	first = symbols->count;
	for (size_t i = 0; i < count; i++) {
		uint64_t pc = stack_pc_address(word) | (uint64_t)(count - 1 - i) << INLINED_SHIFT;

		if (!frames[i].file || !*frames[i].file)
			frames[i].file = "?";
		if (!add_frame(symbols, pc, &frames[i]))
			return false;
		symbols->frames[symbols->count - 1].outside = is_outside;
	}
	*slot = first << 8 | (symbols->count - first);
	return true;
}

static const struct trace_frame *word_frames(struct trace_symbols *symbols, uint64_t word,
					     size_t *ret_count)
{
	uint64_t *slot = map_at(&symbols->words, word);

	if (!slot || (!*slot && !symbolize(symbols, word, slot)))
		return NULL;
	*ret_count = *slot & 0xff;
	return symbols->frames + (*slot >> 8);
}

static bool is_named(const struct trace_symbols *symbols, const struct trace_frame *frame,
		     const char *name)
{
	return !strcmp(intern_get(&symbols->names, frame->function), name);
}

static size_t without_runtime(const struct trace_symbols *symbols, const struct trace_frame *frames,
			      size_t count)
{
	if (count && is_named(symbols, &frames[count - 1], "runtime.goexit"))
		count--;
	if (count > 1 && is_named(symbols, &frames[count - 1], "runtime.main"))
		count--;
	return count;
}

static bool is_hidden(const struct trace_symbols *symbols, const struct trace_frame *frame,
		      const struct trace_frame *callee)
{
	struct go_frame wrapper = {.wrapper = frame->wrapper}, inner = {0};

	if (callee)
		inner.function = intern_get(&symbols->names, callee->function);
	return go_frame_hidden(&wrapper, callee ? &inner : NULL);
}

bool trace_symbols_stack(struct trace_symbols *symbols, const struct stack *stack,
			 struct trace_frame *ret, size_t max, size_t *ret_count)
{
	struct trace_frame inner = {0}; /* the frame before, hidden ones too */
	size_t count = 0, n;

	for (size_t i = 0; i < stack->count && count < max; i++) {
		const struct trace_frame *frames = word_frames(symbols, stack->pcs[i], &n);

		if (!frames)
			return false;
		for (size_t k = 0; k < n && count < max; k++) {
			/* Calls within C code are one frame. */
			if (!is_hidden(symbols, &frames[k], inner.pc ? &inner : NULL) &&
			    !(frames[k].outside && inner.outside))
				ret[count++] = frames[k];
			inner = frames[k];
		}
	}
	*ret_count = without_runtime(symbols, ret, count);
	return true;
}

bool trace_symbols_function(struct trace_symbols *symbols, uint64_t entry, struct trace_frame *ret)
{
	size_t count;
	const struct trace_frame *frames = word_frames(symbols, entry | STACK_PC_EXACT, &count);

	if (frames)
		*ret = frames[count - 1];
	return frames;
}

void trace_symbols_release(struct trace_symbols *symbols)
{
	free(symbols->frames);
	map_release(&symbols->words);
	intern_release(&symbols->names);
	symbols->frames = NULL;
	symbols->count = symbols->capacity = 0;
}

void trace_symbols_trim(struct trace_symbols *symbols)
{
	if (symbols->count > MAX_KEPT || symbols->words.count > MAX_KEPT)
		trace_symbols_release(symbols);
}
