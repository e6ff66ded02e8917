/*
 * A file without a name for collections that do not fit into memory. They are contiguous in it, and
 * it is used as a ring. One thread writes, another reads in the same order.
 */
#ifndef COLLECT_SPILL_H
#define COLLECT_SPILL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/block.h"

struct spill {
	int file;
	uint64_t most;          /* bytes of the file */
	uint64_t end;           /* where the next goes: bytes, which only grow */
	_Atomic uint64_t begin; /* all before this was read */
	atomic_int failed;      /* errno of a write; 0: none. Nothing is written after it */
};

/* Keeps the descriptor; -1: there is no room at all. */
void spill_init(struct spill *s, int file, uint64_t most);

/* The share of the file that is in use. For any thread. */
double spill_fill(const struct spill *s);

/* Writes a collection, by its first block, and says where it is. False: there is no room, or the
 * disk is full. */
bool spill_write(struct spill *s, const struct block *first, uint64_t *ret_at);
/* The oldest collection, as new blocks, each of which free() releases. */
struct error *spill_read(struct spill *s, uint64_t at, struct block **ret) must_check;

#endif
