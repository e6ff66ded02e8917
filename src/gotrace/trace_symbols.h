/* The frames of stacks as a trace has them, each word symbolized once. */
#ifndef GOTRACE_TRACE_SYMBOLS_H
#define GOTRACE_TRACE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "base/map.h"
#include "gotrace/c_functions.h"
#include "image/pclntab.h"
#include "unwind/stacks.h"

/* A stack of a CPU sample, by its number in a set of words. */
static inline struct stack trace_cpu_stack(const struct intern *words, uint32_t number)
{
	const struct interned *one = number < words->count ? &words->strings[number] : NULL;

	if (!one)
		return (struct stack){0};
	return (struct stack){(const uint64_t *)one->data, one->length / sizeof(uint64_t), false};
}

struct trace_frame {
	uint64_t pc;       /* its own: inlined calls at one address differ */
	uint32_t function; /* both in the names */
	uint32_t file;
	uint32_t line;
	bool wrapper; /* hidden, unless it called a function that panics */
	bool outside; /* of C code, or of the vDSO */
};

struct trace_symbols {
	const struct pclntab *functions;
	const struct c_functions *c_functions; /* or NULL */
	struct intern names;
	struct map words; /* stack word -> place of its first frame << 8 | frames */
	struct trace_frame *frames;
	size_t count;
	size_t capacity;
};

/*
 * The frames of a stack, innermost first, at most `max`: without runtime.goexit, and without
 * runtime.main outside of main.main, as the runtime writes them. The outermost frame names the
 * goroutine. *ret_count is 0 for an empty stack. False: no memory.
 */
bool trace_symbols_stack(struct trace_symbols *symbols, const struct stack *stack,
			 struct trace_frame *ret, size_t max, size_t *ret_count);

/* The function that begins at this address: one frame. */
bool trace_symbols_function(struct trace_symbols *symbols, uint64_t entry, struct trace_frame *ret);

/* Call it between two uses of names: forgets all words when there are too many. */
void trace_symbols_trim(struct trace_symbols *symbols);

void trace_symbols_release(struct trace_symbols *symbols);

#endif
