/*
 * What one look at the target's rings has taken: a collection of blocks, each with pieces of rings.
 * Blocks are gospect's own memory; the target cannot change them.
 */
#ifndef COLLECT_BLOCK_H
#define COLLECT_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/abi.h"
#include "collect/counters.h"
#include "collect/ticks.h"
#include "gotrace/event.h"

#define BLOCK_PIECES 80
#define BLOCK_BYTES AGENT_CHUNK_BYTES

struct block;
struct unread_set;

/* Consecutive bytes that the agent wrote into a ring. */
struct piece {
	struct piece *next; /* for the decoding thread */
	struct block *block;
	const uint8_t *bytes;
	uint64_t at; /* bytes that the ring has had before them */
	uint32_t size;
	uint32_t slot;
};

struct collection {
	uint64_t ns;       /* when the rings were looked at (CLOCK_MONOTONIC) */
	uint64_t taken_ns; /* a moment after all of it was there */
	struct tick_pair clock;
	uint64_t watermark;        /* no record that is still to come has a tick before this */
	bool last;                 /* nothing will come any more */
	struct unread_set *unread; /* of the taking thread */
	size_t counter_count;
	struct trace_event counters[COUNTERS_MAX_EVENTS];
};

struct block {
	struct block *next; /* of the same collection */
	struct collection about;
	uint32_t piece_count;
	uint32_t used; /* of `bytes` */
	uint32_t left; /* pieces that are still to be decoded */
	bool in_heap;  /* was read from the file */
	struct piece pieces[BLOCK_PIECES];
	uint8_t bytes[BLOCK_BYTES];
};

#endif
