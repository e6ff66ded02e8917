/* The stack words of a sample: for this room alone. */
#ifndef PERFDATA_CHAINS_H
#define PERFDATA_CHAINS_H

#include "image/frame_record.h"
#include "perfdata/perf_sample.h"
#include "perfdata/process_table.h"

/* Counts of stacks; all but `samples` for Go programs whose files are available. */
struct chain_counts {
	uint64_t samples;
	uint64_t whole; /* walked to the start of the goroutine or thread */
	uint64_t truncated;
	uint64_t switched; /* of the truncated: on another stack of the thread, which perf lacks */
	uint64_t unknown;
	uint64_t by_chain;     /* perf's frame pointers alone */
	uint64_t no_caller;    /* of these, how many lack a caller */
	uint64_t caller_found; /* the chain lacked the caller; LR had it */
	uint64_t doubled;      /* had a word too many, which was left out */
};

struct chains {
	enum machine machine;
	struct chain_counts counts;
	uint64_t *words;
	size_t count;
	size_t capacity;
	uint64_t *chain; /* the user's part of perf's callchain, in the walk's form */
	size_t chain_count;
	size_t chain_capacity;
	struct frame_records records;
};

/* Whether a sample has the registers and bytes of stack for an unwinder. */
bool chains_unwind(const struct chains *c, const struct recorded_sample *s);
/* Fills c->words. The process has an unwinder where the sample needs one. */
struct error *chains_make(struct chains *c, struct recorded_process *p,
			  const struct recorded_sample *s) must_check;
void chains_release(struct chains *c);

#endif
