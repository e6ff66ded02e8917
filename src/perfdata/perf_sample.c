/* Source: perf_event_open(2), PERF_RECORD_SAMPLE; kernel/events/core.c, perf_output_sample(). */
#include "perfdata/perf_sample.h"

#include <linux/perf_event.h>

#include "base/array.h"
#include "base/cursor.h"

#define ABI_64 2 /* PERF_SAMPLE_REGS_ABI_64 */
#define BRANCH_COUNTERS (1u << 19)
#define READ_LOST (1u << 4)
#define BRANCH_ENTRY 24

/* DWARF's numbers of what asm/perf_regs.h calls 0, 1, 2 ...; NONE: flags and segments. On arm64
 * both are the same. */
#define NONE 0xff
static const uint8_t amd64_numbers[] = {
	AMD64_RAX, AMD64_RBX, AMD64_RCX, AMD64_RDX, AMD64_RSI, AMD64_RDI, AMD64_RBP, AMD64_RSP,
	AMD64_PC,  NONE,      NONE,      NONE,      NONE,      NONE,      NONE,      NONE,
	8,         9,         10,        11,        12,        13,        14,        15,
};

static void skip(struct cursor *c, uint64_t count, size_t size)
{
	size_t left = c->end - c->at;

	if (count > left / size)
		c->failed = true;
	else
		cursor_bytes(c, count * size);
}

static void skip_read(struct cursor *c, uint64_t format)
{
	size_t times = !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) +
		       !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
	size_t each = 1 + !!(format & PERF_FORMAT_ID) + !!(format & READ_LOST);
	uint64_t count = format & PERF_FORMAT_GROUP ? cursor_u64(c) : 1;

	skip(c, times, 8);
	skip(c, count, each * 8);
}

static void skip_branches(struct cursor *c, uint64_t type)
{
	uint64_t count = cursor_u64(c);

	if (type & PERF_SAMPLE_BRANCH_HW_INDEX)
		cursor_u64(c);
	skip(c, count, BRANCH_ENTRY);
	if (type & BRANCH_COUNTERS)
		skip(c, count, 8);
}

static void take_chain(struct cursor *c, struct recorded_sample *s)
{
	uint64_t count = cursor_u64(c);

	s->chain = c->at;
	skip(c, count, 8);
	s->chain_count = c->failed ? 0 : count;
}

static void take_registers(struct cursor *c, uint64_t mask, enum machine machine,
			   struct recorded_sample *s)
{
	uint64_t abi = cursor_u64(c);

	if (!abi)
		return;
	for (unsigned int i = 0; i < 64; i++) {
		uint64_t value = mask >> i & 1 ? cursor_u64(c) : 0;
		uint8_t number = i;

		if (machine == MACHINE_AMD64)
			number = i < ARRAY_SIZE(amd64_numbers) ? amd64_numbers[i] : NONE;
		if (mask >> i & 1 && number < REGISTERS_MAX && abi == ABI_64)
			registers_set(&s->regs, number, value);
	}
}

/* So many bytes were reserved; the last word is the true size of the stack. */
static void take_stack(struct cursor *c, struct recorded_sample *s)
{
	uint64_t size = cursor_u64(c), used;

	s->stack = c->at;
	skip(c, size, 1);
	used = size ? cursor_u64(c) : 0;
	s->stack_size = used < size ? used : size;
}

bool perf_sample_parse(const struct perf_attr *attr, enum machine machine,
		       const struct perf_record *record, struct recorded_sample *s)
{
	struct cursor c = cursor_of(record->body, record->size, "a sample");
	uint64_t type = attr->sample_type;

	*s = (struct recorded_sample){.period = attr->period ?: 1,
				      .is_rewritten = attr->is_rewritten};
	s->in_kernel = (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	skip(&c, !!(type & PERF_SAMPLE_IDENTIFIER), 8);
	s->ip = type & PERF_SAMPLE_IP ? cursor_u64(&c) : 0;
	s->pid = type & PERF_SAMPLE_TID ? cursor_u32(&c) : 0;
	s->tid = type & PERF_SAMPLE_TID ? cursor_u32(&c) : 0;
	skip(&c,
	     __builtin_popcountll(type & (PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID |
					  PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU)),
	     8);
	if (type & PERF_SAMPLE_PERIOD)
		s->period = cursor_u64(&c);
	if (type & PERF_SAMPLE_READ)
		skip_read(&c, attr->read_format);
	s->chain_at = c.at - c.start;
	if (type & PERF_SAMPLE_CALLCHAIN)
		take_chain(&c, s);
	s->chain_end = c.at - c.start;
	if (type & PERF_SAMPLE_RAW)
		skip(&c, cursor_u32(&c), 1);
	if (type & PERF_SAMPLE_BRANCH_STACK)
		skip_branches(&c, attr->branch_type);
	s->user_at = c.at - c.start;
	if (type & PERF_SAMPLE_REGS_USER)
		take_registers(&c, attr->registers, machine, s);
	if (type & PERF_SAMPLE_STACK_USER)
		take_stack(&c, s);
	s->user_end = c.at - c.start;
	return !c.failed;
}
