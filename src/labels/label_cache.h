/*
 * Label sets that were read before, and whether they are still there, found out in one read.
 *
 * A set is read from several pieces of memory, where each leads to the next: the pointer, the map
 * or the slice, its buckets or labels, the strings. If all pieces hold the same bytes as before,
 * reading the set again would give the same result. So a set is recognised by all its bytes, never
 * by its address alone.
 *
 * For the files of this room alone.
 */
#ifndef LABELS_LABEL_CACHE_H
#define LABELS_LABEL_CACHE_H

#include "target/read_plan.h"

/* Larger sets are not kept: they are read anew each time. */
enum { LABEL_TRAIL_PIECES = 24, LABEL_TRAIL_BYTES = 1024 };
/* Sets that are kept at most; of those that share a slot the latest. */
#define LABEL_CACHE_SLOTS 4096u

/* The memory that a set was read from. */
struct label_trail {
	uint32_t pieces;
	uint32_t bytes;
	bool too_long;
	struct label_piece {
		uint64_t address;
		uint32_t size;
	} piece[LABEL_TRAIL_PIECES];
	uint8_t memory[LABEL_TRAIL_BYTES]; /* the bytes of all pieces, concatenated */
};

struct label_cache {
	struct known_labels **slots; /* LABEL_CACHE_SLOTS of them, or NULL while empty */
	/* For the current check. */
	struct label_check *checks;
	size_t check_count;
	size_t check_capacity;
	struct plan plan;
	uint8_t *memory;
	size_t memory_capacity;
};

/* Records a piece that was read, and its bytes. */
void label_trail_add(struct label_trail *trail, uint64_t address, const void *bytes, size_t size);

/* Keeps the set at this address, its number `id` and the pieces that it was read from. If they are
 * too large or there is no memory, the address is forgotten. */
void label_cache_keep(struct label_cache *cache, uint64_t pointer, const struct label_trail *trail,
		      uint32_t id);

/* Which of the sets at these addresses are unchanged, and their numbers: ret_known[i], and then
 * ret[i]. In one read, in the order of addresses. */
struct error *label_cache_check(struct label_cache *cache, struct target *t,
				const uint64_t *pointers, size_t count, uint32_t *ret,
				bool *ret_known) must_check;

void label_cache_release(struct label_cache *cache);

#endif
