/* The contents of a sample of a perf file. */
#ifndef PERFDATA_PERF_SAMPLE_H
#define PERFDATA_PERF_SAMPLE_H

#include "image/registers.h"
#include "perfdata/perf_file.h"

struct recorded_sample {
	uint64_t ip;
	uint32_t pid;
	uint32_t tid;
	uint64_t period; /* events that it stands for */
	bool in_kernel;
	const uint8_t *chain; /* 8 bytes each, at any address; PERF_CONTEXT_* are among them */
	size_t chain_count;
	bool is_rewritten;     /* the callchain lacks no caller, but where it has a 0 */
	struct registers regs; /* the user's; those of a 32-bit process are left out */
	const uint8_t *stack;  /* from SP on */
	size_t stack_size;
	/* Offsets in the body of the record: where the callchain is, or would be; where the user's
	 * registers and stack are. */
	uint32_t chain_at, chain_end;
	uint32_t user_at, user_end;
};

static inline uint64_t recorded_chain(const struct recorded_sample *s, size_t i)
{
	uint64_t value;

	__builtin_memcpy(&value, s->chain + 8 * i, sizeof(value));
	return value;
}

/* False when it does not match its attr. */
bool perf_sample_parse(const struct perf_attr *attr, enum machine machine,
		       const struct perf_record *record, struct recorded_sample *ret);

#endif
