/* The spans of a trace (requests/spans.h): from its bytes to what is handed out. */
#ifndef LIB_TRACE_SPANS_H
#define LIB_TRACE_SPANS_H

#include <gospect/snapshot.h>

#include "lib/given.h"
#include "lib/remark.h"
#include "profile/profile.h"
#include "requests/spans.h"

struct trace_spans_options {
	struct spans_options spans;
	const char *name;     /* of the trace, in messages */
	struct remark remark; /* receives the remark that the file ends early */
	/* Of 32 bytes, or NULL: gets the header: "go 1.22 trace". */
	char *header;
};

struct error *trace_spans_read(const void *bytes, size_t size,
			       const struct trace_spans_options *options,
			       struct span_tables *tables, uint64_t *ret_duration) must_check;

enum gospect_state span_state(enum trace_status status);

/* Its strings stay the tables'. NULL: no memory. */
const struct gospect_stack *span_stack_of(struct arena *arena, const struct span_tables *tables,
					  uint32_t stack);

/*
 * A stack as a profile has it: its words are numbers of frames, behind the pseudo words;
 * span_word_frames() resolves them, as a function of struct symbol_source. A trace says where a
 * goroutine stopped, not where it was while it ran: then only its start function is known. *pcs is
 * the caller's to free. False: no memory.
 */
bool span_words(const struct span_tables *tables, uint32_t stack, bool runs, uint64_t **pcs,
		size_t *capacity, struct profile_sample *sample);
size_t span_word_frames(const void *tables, uint64_t word, struct go_frame *ret, size_t max);

#endif
