/*
 * How to read many small pieces of memory in few large reads. Pages (300 ns) and calls (1.5 us)
 * cost time, bytes hardly any: pieces in address order are merged when the gap between them is at
 * most a page, and merged ranges share a call.
 */
#ifndef TARGET_READ_PLAN_H
#define TARGET_READ_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/target.h"

#define PLAN_GAP 4096
/* The most bytes of one call: a larger call leaves the CPU's cache, and holds the target's
 * mmap_lock longer. */
#define PLAN_CALL_BYTES (1u << 20)

struct plan_piece {
	uint64_t address;
	uint32_t size;
	uint32_t offset; /* once planned: where its bytes are in the plan's buffer */
};

struct plan {
	struct target_range *ranges; /* buffers unset: they are read packed */
	size_t count;
	size_t capacity;
	size_t bytes; /* in all */
};

/*
 * Adds a piece to the last range if it begins close behind that range, which must not be one of the
 * first `first`. Otherwise it becomes a new range. Pieces may overlap. Sets the piece's offset.
 * False when there is no memory.
 */
bool plan_merge(struct plan *plan, struct plan_piece *piece, size_t first);

void plan_reset(struct plan *plan);
void plan_release(struct plan *plan);

/*
 * Reads all ranges into the buffer (plan->bytes long), in as many calls as needed. *ret_bytes is
 * how many bytes are there, from the buffer's start: fewer than planned when some memory could not
 * be read.
 */
struct error *plan_read(const struct plan *plan, struct target *t, uint8_t *buffer,
			size_t *ret_bytes) must_check;

#endif
