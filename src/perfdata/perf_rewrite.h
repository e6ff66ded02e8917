/*
 * Writes a recording again, with other callchains: for this room alone. Attributes, ids, features
 * and records are copied. Samples of events with callchains or with the user's stack get a new
 * callchain, and lose the user's registers and stack, which nobody needs any more. The result is a
 * plain file also where the recording is a pipe's or packed.
 */
#ifndef PERFDATA_PERF_REWRITE_H
#define PERFDATA_PERF_REWRITE_H

#include <stdio.h>

#include "base/strbuf.h"
#include "perfdata/perf_file.h"
#include "perfdata/perf_sample.h"
#include "unwind/stacks.h"

struct perf_rewriter {
	const struct perf_file *file;
	struct strbuf data; /* the records so far */
	struct strbuf chain;
	uint64_t records;
	uint64_t left_out; /* samples that are not written */
};

#define PERF_REWRITER_INIT(f)                                          \
	{                                                              \
		.file = (f), .data = STRBUF_INIT, .chain = STRBUF_INIT \
	}

void perf_rewriter_copy(struct perf_rewriter *w, const struct perf_record *record);
/* The user's part of the callchain becomes the stack words; addresses that are not known become 0,
 * which perf shows as [unknown]. `functions`: of the Go program, or NULL. */
void perf_rewriter_sample(struct perf_rewriter *w, const struct perf_record *record,
			  const struct perf_attr *attr, const struct recorded_sample *s,
			  const struct stack *words, const struct pclntab *functions);
struct error *perf_rewriter_write(struct perf_rewriter *w, FILE *out) must_check;
void perf_rewriter_release(struct perf_rewriter *w);

#endif
