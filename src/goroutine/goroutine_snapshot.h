/*
 * One goroutine with the memory of its stack. As for many (goroutines.h), the stack counts only
 * when the goroutine's header is the same before and after it was read.
 */
#ifndef GOROUTINE_GOROUTINE_SNAPSHOT_H
#define GOROUTINE_GOROUTINE_SNAPSHOT_H

#include "goroutine/goroutines.h"
#include "unwind/frames.h"

struct goroutine_snapshot {
	uint64_t g;
	uint64_t goid;
	enum goroutine_status status;
	uint8_t wait_reason;
	uint64_t stack_end; /* stack.hi */
	struct stack_memory memory;
	uint8_t *bytes; /* what memory.bytes points to */
	struct frames frames;
	uint64_t fp;      /* the frame pointer register; 0: not known */
	bool has_general; /* it was running: registers.general are those of frame 0 */
	struct target_registers registers;
};

/*
 * Takes the goroutine with this id, and reads it again if it moves meanwhile. If it runs in a live
 * process whenever it is read in 50 ms, *ret_runs is true, and nothing of *ret but g and stack_end
 * is set. ERROR_FAILED: it moved for a second, or there is no such goroutine. Frames that do not
 * lead to the stack's end are no error: see frames.end.
 */
struct error *goroutine_snapshot_take(struct goroutine_set *set, uint64_t goid, bool *ret_runs,
				      struct goroutine_snapshot *ret) must_check;

/* The bounds of the stack now, of a goroutine that ran. False: it has ended. */
bool goroutine_snapshot_bounds(struct goroutine_set *set, const struct goroutine_snapshot *s,
			       uint64_t *ret_low, uint64_t *ret_end);

/* Fills *s, of a goroutine that ran, from memory that was copied while it ran; of the copy what is
 * below stack_end. */
struct error *goroutine_snapshot_fill(struct goroutine_set *set, const struct goroutine_memory *m,
				      struct goroutine_snapshot *s) must_check;
void goroutine_snapshot_release(struct goroutine_snapshot *s);
#define _cleanup_goroutine_snapshot_ __attribute__((cleanup(goroutine_snapshot_release)))

#endif
