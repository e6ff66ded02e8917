/*
 * The result of profile_symbolize(); for the writers of this room and its tests.
 *
 * Frames are kept once for each stack word. Each distinct (function, file, line) has a small
 * number, so writers compare numbers. All text is valid UTF-8 and belongs to the symbols: the
 * function table may be freed.
 */
#ifndef PROFILE_PROFILE_SYMBOLS_H
#define PROFILE_PROFILE_SYMBOLS_H

#include <stdatomic.h>

#include "profile/profile.h"

/* A line of source; function and file are in profile_symbols.strings. */
struct source_line {
	uint32_t function;
	uint32_t file;
	uint32_t line;
	uint32_t start_line; /* of the function; 0: not known */
};

struct symbol_word {
	struct profile_location location;
	uint64_t pc;
	size_t first; /* its frames in profile_symbols.frames; a word without frames has "0x<pc>" */
};

struct profile_symbols {
	struct intern strings;
	struct symbol_word *words;
	size_t word_count;
	size_t word_capacity;
	struct map index; /* word -> index in words + 1 */
	struct go_frame *frames;
	size_t frame_count;
	size_t frame_capacity;
	uint32_t *lines; /* for each of `frames`: its index in source_lines */
	size_t lines_capacity;
	struct source_line *source_lines;
	size_t source_line_count;
	size_t source_line_capacity;
	struct map source_line_index;
	bool with_functions;
};

/* The source of a word's frames: pclntab_frames() and its table, or a test's own. */
struct symbol_source {
	size_t (*frames)(const void *functions, uint64_t pc, struct go_frame *ret, size_t max);
	const void *functions;
	const atomic_int *cancel; /* ERROR_STOPPED when it is not 0; or NULL */
};

struct error *symbols_create(const struct profile *p, const struct symbol_source *source,
			     struct profile_symbols **ret) must_check;

/* Adds the words of the profile's samples from index `first` on. */
struct error *symbols_extend(struct profile_symbols *symbols, const struct profile *p, size_t first,
			     const struct symbol_source *source) must_check;
/* Adds a frame that no word has; *ret is its index. Call it before symbols_extend(), which
 * completes it. */
struct error *symbols_add_frame(struct profile_symbols *symbols, const char *function,
				size_t *ret) must_check;

const struct symbol_word *symbols_word(const struct profile_symbols *symbols, uint64_t pc);

/*
 * Which frames of this word are shown, as bits, the innermost lowest. *callee is the frame inside
 * the word's innermost one; it becomes the word's outermost. A word without frames counts as one
 * frame.
 */
uint64_t symbols_shown(const struct profile_symbols *symbols, const struct symbol_word *word,
		       const struct go_frame **callee);

/*
 * The word whose innermost frame represents a stack without visible frames. A goroutine that has
 * not run yet is only in its start function, which is a wrapper for `go f(x)`: then it is that
 * word. Otherwise it is "[unknown]".
 */
const struct symbol_word *symbols_lone(const struct profile_symbols *symbols,
				       const struct profile_sample *sample);

/* The frames of a sample's stack as indices in profile_symbols.frames, innermost first; never
 * empty. */
struct symbol_stack {
	size_t *frames;
	size_t count;
	size_t capacity;
};

struct error *symbols_stack(const struct profile_symbols *symbols,
			    const struct profile_sample *sample,
			    struct symbol_stack *stack) must_check;
/* Likewise, with the program of a merged profile at the outer end, for formats without labels. */
struct error *symbols_stack_of_program(const struct profile_symbols *symbols,
				       const struct profile_sample *sample,
				       struct symbol_stack *stack) must_check;
void symbol_stack_release(struct symbol_stack *stack);

#define _cleanup_symbol_stack_ __attribute__((cleanup(symbol_stack_release)))

#endif
