/*
 * The rings that the agent writes, from outside: what is new in them is copied into a backlog, and
 * its room given back at once.
 *
 * The target can change shared memory between two instructions. So each position is loaded once, by
 * an atomic load, and the head of a chunk is copied once, and checked afterwards; the bytes of
 * records are copied once, unchecked (the decoder takes each of the copy as hostile:
 * collect/drain.h). So the bytes that are checked are those that are decoded.
 *
 * For one thread, except functions that say "for any thread".
 */
#ifndef COLLECT_RINGS_H
#define COLLECT_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/abi.h"
#include "base/error.h"
#include "collect/backlog.h"
#include "hooks/injection.h"

struct rings;

/* `layout` says how the memory was made, and `in` makes it present (NULL: it is); all are kept.
 * `room` is how much memory there is (base/memory_room.h), of which a quarter may be made present.
 */
struct error *rings_create(struct agent_shared *shared, const struct agent_shared *layout,
			   const struct injection *in, uint64_t room,
			   struct rings **ret) must_check;
void rings_destroy(struct rings *r);

/*
 * Copies new records into the collection that begins with this empty block, and notes up to which
 * time they are complete: `now` - `margin` ticks, less while a thread is writing a record, and all
 * when `ended`. Records beyond the room, or too many for one look, stay in the rings, the latest
 * first, and the collection is complete up to them. True: nothing was left.
 *
 * The backlog's last block is never filled, but tells of progress when all others wait for it. When
 * they wait for a thread that is stopped inside a record, it is not awaited any more: its record
 * will come too late for its place.
 */
bool rings_collect(struct rings *r, struct backlog *b, struct block *first, uint64_t now,
		   uint64_t margin, bool ended);

/* How many sets of labels the agent could not read in a slot so far, as it says. */
uint64_t rings_unread(const struct rings *r, uint32_t slot);

/* The number of bytes in the fullest ring. It looks at nothing else. */
uint64_t rings_waiting(const struct rings *r);

/* As the agent counts them, so far. For any thread. */
struct rings_stats {
	uint64_t lost;
	uint64_t stacks_lost;
	uint64_t labels_unread; /* sets that it could not read */
	uint64_t corrupt;       /* positions that made no sense */
	uint64_t populated;     /* bytes of all rings that were made present */
};
void rings_stats(const struct rings *r, struct rings_stats *ret);

static inline void cleanup_rings(struct rings **r)
{
	rings_destroy(*r);
}
#define _cleanup_rings_ __attribute__((cleanup(cleanup_rings)))

#endif
