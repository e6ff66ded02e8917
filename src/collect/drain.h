/*
 * The agent's records out of what the collector has taken from the rings, in the order of their
 * times over all rings.
 *
 * A record is available when no earlier one can come any more: each collection says up to which
 * time it is complete. The bytes are the target's: invalid ones are skipped up to the next chunk,
 * and counted.
 *
 * Records are read from blocks, which are gospect's own memory.
 */
#ifndef COLLECT_DRAIN_H
#define COLLECT_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/abi.h"
#include "base/error.h"
#include "collect/backlog.h"

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
	struct drain_text texts[2];
	uint32_t slot;
	unsigned int kind; /* enum agent_record, RECORD_LOST */
};

struct drain;

/* `layout` says how the shared memory was made; both are kept. */
struct error *drain_create(const struct agent_shared *layout, struct backlog *backlog,
			   struct drain **ret) must_check;
void drain_destroy(struct drain *d);

/* Takes a collection, by its first block. Its blocks go back to the backlog when all of their
 * records were read. */
void drain_add(struct drain *d, struct block *first);
/* The next record, valid until the next call of either; NULL: none until the next collection. */
const struct drain_record *drain_next(struct drain *d);

/* No record that is still to come has a tick before this. */
uint64_t drain_watermark(const struct drain *d);

struct drain_stats {
	uint64_t records;
	uint64_t bytes;
	uint64_t corrupt; /* places that made no sense */
};
void drain_stats(const struct drain *d, struct drain_stats *ret);

/* The numbers of all records of a kind in a piece that does not change: how many, up to `most`. For
 * any thread. */
size_t drain_find(const struct piece *p, enum agent_record kind,
		  uint64_t (*ret)[RECORD_MAX_NUMBERS], size_t most);

static inline void cleanup_drain(struct drain **d)
{
	drain_destroy(*d);
}
#define _cleanup_drain_ __attribute__((cleanup(cleanup_drain)))

#endif
