/*
 * Reads Go execution traces: those of gospect and those of Go 1.22 and later (headers "go 1.22
 * trace" to "go 1.26 trace"), as steps in the order in which they happened. That order is what Go's
 * own reader makes (internal/trace/order.go): by time, except that a step may have to wait for
 * another thread's, by its sequence number.
 *
 * One generation is in memory at a time. Every byte is hostile: memory and time are proportional to
 * the file's size, whatever it contains.
 */
#ifndef GOTRACE_TRACE_READER_H
#define GOTRACE_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gotrace/step.h"

/* A frame of a stack, as the trace has it. Strings live as long as the generation. */
struct trace_reader_frame {
	uint64_t pc;
	const char *function;
	const char *file;
	uint32_t line;
};

struct trace_reader;

/* ERROR_CORRUPT: it is no trace, or has an unknown format, which the error names. Keeps `bytes`. */
struct error *trace_reader_create(const void *bytes, size_t size,
				  struct trace_reader **ret) must_check;
void trace_reader_destroy(struct trace_reader *reader);

/*
 * The next step; false in *ret_more: the end. Texts and stacks in it are numbers for the functions
 * below, valid until the next step. ns are since the trace began.
 */
struct error *trace_reader_next(struct trace_reader *reader, struct trace_step *ret,
				bool *ret_more) must_check;

/* Whether the trace has CPU samples; looks at the heads of its batches alone. */
bool trace_reader_has_samples(const void *bytes, size_t size);

/* "" when the trace does not have it. */
const char *trace_reader_text(const struct trace_reader *reader, uint64_t number);
/* The frames of a stack, innermost first; *ret_count is 0 when it is empty or unknown. */
const struct trace_reader_frame *trace_reader_stack(const struct trace_reader *reader,
						    uint64_t number, size_t *ret_count);

/* Changes with each generation: stacks and texts have other numbers then. */
uint64_t trace_reader_generation(const struct trace_reader *reader);

/* "go 1.22 trace" */
const char *trace_reader_header(const struct trace_reader *reader);
/* Whether the file ends within a generation, which was left out. */
bool trace_reader_is_truncated(const struct trace_reader *reader);

static inline void cleanup_trace_reader(struct trace_reader **reader)
{
	trace_reader_destroy(*reader);
}
#define _cleanup_trace_reader_ __attribute__((cleanup(cleanup_trace_reader)))

#endif
