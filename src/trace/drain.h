/*
 * Takes the agent's records out of the rings, in the order of their times over all rings.
 *
 * A record may be taken when no earlier one can come any more: those of before a moment ago, when
 * nobody is just making one. Records are read in place, and their room is given back when the next
 * are collected. All that is in shared memory is the target's: it is checked, and what makes no
 * sense is passed over to the next chunk, and counted.
 */
#ifndef TRACE_DRAIN_H
#define TRACE_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/abi.h"
#include "base/error.h"

/* A made one: `numbers[0]` records were lost here. */
#define RECORD_LOST RECORDS

#define RECORD_MAX_NUMBERS 4

struct drain_text {
	const uint8_t *bytes;
	size_t length;
};

struct drain_record {
	uint64_t tick;
	uint64_t thread;
	uint64_t numbers[RECORD_MAX_NUMBERS];
	struct drain_text texts[2]; /* until the next drain_collect() */
	uint32_t slot;
	unsigned int kind; /* enum agent_record, RECORD_LOST */
};

struct drain;

/* `layout` says how the memory was made; both are kept. */
struct error *drain_create(struct agent_shared *shared, const struct agent_shared *layout,
			   struct drain **ret) must_check;
void drain_destroy(struct drain *d);

/*
 * Looks what is there. Records of before `now` - `margin` ticks become available, fewer when
 * somebody is making one; all when `ended`.
 */
void drain_collect(struct drain *d, uint64_t now, uint64_t margin, bool ended);
/* The next available record; false: none. */
bool drain_next(struct drain *d, struct drain_record *ret);

/* No record that is still to come has a tick before this. */
uint64_t drain_watermark(const struct drain *d);
/* How full the fullest ring was at the last collection: 0 to 1. */
double drain_fill(const struct drain *d);

struct drain_stats {
	uint64_t records;
	uint64_t bytes;
	uint64_t lost; /* as the agent counts them, so far */
	uint64_t stacks_lost;
	uint64_t labels_unread; /* sets that the agent could not read */
	uint64_t corrupt;       /* places that made no sense */
};
void drain_stats(const struct drain *d, struct drain_stats *ret);

/* The words of a stack (agent/abi.h), in shared memory; false when there is none of that number.
 * At most AGENT_MAX_DEPTH + 8. */
bool drain_stack(const struct drain *d, uint64_t number, const uint64_t **ret_words,
		 size_t *ret_count);

static inline void cleanup_drain(struct drain **d)
{
	drain_destroy(*d);
}
#define _cleanup_drain_ __attribute__((cleanup(cleanup_drain)))

#endif
