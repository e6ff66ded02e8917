#include "profile/profile_symbols.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/utf8.h"

/* The bits of symbols_shown(). Further calls inlined at one place are left out. */
#define MAX_FRAMES_OF_WORD 64

/* Turns a word into a key of a map; one value is not allowed as a key. */
static uint64_t key_of(uint64_t pc)
{
	return pc == MAP_NO_KEY ? MAP_NO_KEY - 1 : pc;
}

static bool intern_text(struct profile_symbols *symbols, const char **text, uint32_t *ret)
{
	*ret = utf8_intern(&symbols->strings, *text ? *text : "", *text ? strlen(*text) : 0);
	if (*ret == INTERN_FAILED)
		return false;
	*text = intern_get(&symbols->strings, *ret);
	return true;
}

/* The index of the line in source_lines, added if it is new. */
static bool line_number(struct profile_symbols *symbols, struct source_line line, uint32_t *ret)
{
	uint64_t key = hash_bytes(&line, sizeof(line)), *place;

	for (;; key = hash_u64(key + 1)) {
		place = map_at(&symbols->source_line_index, key_of(key));
		if (!place)
			return false;
		if (!*place)
			break;
		if (!memcmp(&symbols->source_lines[*place - 1], &line, sizeof(line))) {
			*ret = *place - 1;
			return true;
		}
	}
	if (!array_reserve(&symbols->source_lines, &symbols->source_line_capacity,
			   symbols->source_line_count + 1))
		return false;
	symbols->source_lines[symbols->source_line_count++] = line;
	*place = symbols->source_line_count;
	*ret = *place - 1;
	return true;
}

static bool append_frame(struct profile_symbols *symbols, struct go_frame frame)
{
	struct source_line line = {
		.line = frame.line > 0 ? frame.line : 0,
		.start_line = frame.start_line,
	};
	size_t at = symbols->frame_count;

	if (!intern_text(symbols, &frame.function, &line.function) ||
	    !intern_text(symbols, &frame.file, &line.file))
		return false;
	if (!array_reserve(&symbols->frames, &symbols->frame_capacity, at + 1) ||
	    !array_reserve(&symbols->lines, &symbols->lines_capacity, at + 1))
		return false;
	if (!line_number(symbols, line, &symbols->lines[at]))
		return false;
	symbols->frames[at] = frame;
	symbols->frame_count++;
	return true;
}

static size_t frames_of_table(const void *functions, uint64_t pc, struct go_frame *ret, size_t max)
{
	static const struct pclntab empty;

	return pclntab_frames(functions ? functions : &empty, pc, ret, max);
}

static bool append_word(struct profile_symbols *symbols, const struct symbol_source *source,
			uint64_t pc)
{
	struct symbol_word word = {.pc = pc, .first = symbols->frame_count};
	struct go_frame frames[MAX_FRAMES_OF_WORD];
	char address[32];
	size_t count;

	if (stack_pc_is_pseudo(pc))
		count = frames_of_table(NULL, pc, frames, MAX_FRAMES_OF_WORD);
	else
		count = source->frames(source->functions, pc, frames, MAX_FRAMES_OF_WORD);
	word.location.count = count;
	if (!count) {
		snprintf(address, sizeof(address), "0x%" PRIx64, stack_pc_address(pc));
		frames[count++] = (struct go_frame){.function = address, .file = ""};
	}
	for (size_t i = 0; i < count; i++)
		if (!append_frame(symbols, frames[i]))
			return false;
	if (!array_reserve(&symbols->words, &symbols->word_capacity, symbols->word_count + 1))
		return false;
	symbols->words[symbols->word_count++] = word;
	return true;
}

static bool symbolize_word(struct profile_symbols *symbols, const struct symbol_source *source,
			   uint64_t pc)
{
	uint64_t *place = map_at(&symbols->index, key_of(pc));

	if (!place)
		return false;
	if (*place)
		return true;
	if (!append_word(symbols, source, pc))
		return false;
	*place = symbols->word_count;
	return true;
}

static bool symbolize_sample(struct profile_symbols *symbols, const struct symbol_source *source,
			     const struct profile_sample *sample)
{
	for (uint32_t j = 0; j < sample->depth; j++)
		if (!symbolize_word(symbols, source, sample->pcs[j]))
			return false;
	return true;
}

struct error *symbols_extend(struct profile_symbols *symbols, const struct profile *p, size_t first,
			     const struct symbol_source *source)
{
	struct error *err = NULL;

	if (!symbolize_word(symbols, source, STACK_PC_UNKNOWN))
		return &error_no_memory;
	for (size_t i = first; !err && i < p->count; i++) {
		err = cancel_check(source->cancel);
		if (!err && !symbolize_sample(symbols, source, &p->samples[i]))
			err = &error_no_memory;
	}
	/* Frames do not move any more. */
	for (size_t i = 0; i < symbols->word_count; i++)
		symbols->words[i].location.frames = symbols->frames + symbols->words[i].first;
	return err;
}

struct error *symbols_add_frame(struct profile_symbols *symbols, const char *function, size_t *ret)
{
	*ret = symbols->frame_count;
	return append_frame(symbols, (struct go_frame){.function = function, .file = ""})
		       ? NULL
		       : &error_no_memory;
}

struct error *symbols_create(const struct profile *p, const struct symbol_source *source,
			     struct profile_symbols **ret)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = calloc(1, sizeof(*symbols));

	struct error *err = symbols ? symbols_extend(symbols, p, 0, source) : &error_no_memory;

	if (err)
		return err;
	symbols->with_functions = source->functions != NULL;
	*ret = take_ptr(symbols);
	return NULL;
}

struct error *profile_symbolize(const struct profile *p, const struct pclntab *functions,
				struct profile_symbols **ret)
{
	struct symbol_source source = {frames_of_table, functions};

	return symbols_create(p, &source, ret);
}

static size_t frames_of_code(const void *code, uint64_t pc, struct go_frame *ret, size_t max)
{
	return code_frames(code, pc, ret, max);
}

struct error *profile_symbolize_code(const struct profile *p, const struct code *code,
				     const atomic_int *cancel, struct profile_symbols **ret)
{
	struct symbol_source source = {frames_of_code, code, cancel};

	return symbols_create(p, &source, ret);
}

void profile_symbols_destroy(struct profile_symbols *symbols)
{
	if (!symbols)
		return;
	map_release(&symbols->index);
	map_release(&symbols->source_line_index);
	intern_release(&symbols->strings);
	free(symbols->words);
	free(symbols->frames);
	free(symbols->lines);
	free(symbols->source_lines);
	free(symbols);
}

const struct symbol_word *symbols_word(const struct profile_symbols *symbols, uint64_t pc)
{
	const uint64_t *place = map_find(&symbols->index, key_of(pc));

	return place ? &symbols->words[*place - 1] : NULL;
}

const struct profile_location *profile_symbols_of(const struct profile_symbols *symbols,
						  uint64_t pc)
{
	const struct symbol_word *word = symbols_word(symbols, pc);

	return word ? &word->location : NULL;
}

uint64_t symbols_shown(const struct profile_symbols *symbols, const struct symbol_word *word,
		       const struct go_frame **callee)
{
	const struct go_frame *frame = symbols->frames + word->first;
	uint64_t shown = 0;

	if (!word->location.count)
		shown = 1;
	for (size_t i = 0; i < word->location.count; i++, frame++) {
		if (!go_frame_hidden(frame, *callee) && strcmp(frame->function, "runtime.goexit"))
			shown |= 1ull << i;
		*callee = frame;
	}
	return shown;
}

const struct symbol_word *symbols_lone(const struct profile_symbols *symbols,
				       const struct profile_sample *sample)
{
	const struct symbol_word *word =
		sample->depth ? symbols_word(symbols, sample->pcs[0]) : NULL;

	if (word && word->location.count && symbols->frames[word->first].wrapper)
		return word;
	return symbols_word(symbols, STACK_PC_UNKNOWN);
}

static struct error *push_frame(struct symbol_stack *stack, size_t frame)
{
	if (!array_reserve(&stack->frames, &stack->capacity, stack->count + 1))
		return &error_no_memory;
	stack->frames[stack->count++] = frame;
	return NULL;
}

struct error *symbols_stack(const struct profile_symbols *symbols,
			    const struct profile_sample *sample, struct symbol_stack *stack)
{
	const struct go_frame *callee = NULL;
	struct error *err;

	stack->count = 0;
	for (uint32_t i = 0; i < sample->depth; i++) {
		const struct symbol_word *word = symbols_word(symbols, sample->pcs[i]);
		uint64_t shown = symbols_shown(symbols, word, &callee);

		for (size_t j = 0; shown; j++, shown >>= 1) {
			err = shown & 1 ? push_frame(stack, word->first + j) : NULL;
			if (err)
				return err;
		}
	}
	return stack->count ? NULL : push_frame(stack, symbols_lone(symbols, sample)->first);
}

struct error *symbols_stack_of_program(const struct profile_symbols *symbols,
				       const struct profile_sample *sample,
				       struct symbol_stack *stack)
{
	struct error *err = symbols_stack(symbols, sample, stack);

	return err || !sample->program ? err : push_frame(stack, sample->program - 1);
}

void symbol_stack_release(struct symbol_stack *stack)
{
	free(stack->frames);
	*stack = (struct symbol_stack){0};
}

void profile_stack_frames(const struct profile_symbols *symbols,
			  const struct profile_sample *sample, struct go_frame *ret, size_t max,
			  size_t *ret_count)
{
	const struct go_frame *callee = NULL;
	size_t n = 0;

	for (uint32_t i = 0; i < sample->depth && n < max; i++) {
		const struct symbol_word *word = symbols_word(symbols, sample->pcs[i]);
		uint64_t shown = symbols_shown(symbols, word, &callee);

		for (size_t j = 0; shown && n < max; j++, shown >>= 1)
			if (shown & 1)
				ret[n++] = symbols->frames[word->first + j];
	}
	if (!n && max)
		ret[n++] = symbols->frames[symbols_lone(symbols, sample)->first];
	*ret_count = n;
}
