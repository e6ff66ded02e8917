/* Texts and stacks of a trace, each kept once for the whole trace: in the file they have other
 * numbers in each generation. */
#ifndef REQUESTS_SPAN_TABLES_H
#define REQUESTS_SPAN_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/intern.h"
#include "base/map.h"
#include "gotrace/trace_reader.h"

struct span_tables {
	struct intern texts;
	struct intern frames; /* of struct span_frame */
	struct intern stacks; /* of uint32_t: numbers of frames, innermost first */
};

struct span_frame {
	uint32_t function; /* both in texts */
	uint32_t file;
	uint32_t line;
};

/* The numbers of a stack's frames, and a frame. */
const uint32_t *span_stack(const struct span_tables *tables, uint32_t stack, size_t *ret_count);
struct span_frame span_frame(const struct span_tables *tables, uint32_t frame);

void span_tables_release(struct span_tables *tables);
#define _cleanup_span_tables_ __attribute__((cleanup(span_tables_release)))

/* Fills them in while a trace is read. */
struct tables_filling {
	struct trace_reader *reader;
	struct span_tables *tables;
	struct map stacks; /* of this generation: the reader's number -> ours + 1 */
	uint64_t generation;
	struct error *error; /* no memory: then everything has the number 0 */
};

uint32_t filling_text(struct tables_filling *f, const char *text);
/* 0: it is empty or not known. */
uint32_t filling_stack(struct tables_filling *f, uint64_t number);
/* The outermost function of a stack, in texts; 0: not known. */
uint32_t filling_start(struct tables_filling *f, uint64_t number);
/* Likewise the innermost. */
uint32_t filling_leaf(struct tables_filling *f, uint64_t number);
void filling_release(struct tables_filling *f);

#endif
