/*
 * What the bytes of the runtime's g and m say. The target's DWARF decides where their fields are
 * and may say anything, so this is the only code that adds such an offset to bytes in gospect's own
 * memory.
 *
 * Whoever makes a view has read golayout_g_bytes() or golayout_m_bytes() bytes. Every field ends
 * within them, and golayout_open() has refused what is larger than the limits below.
 */
#ifndef GOLAYOUT_VIEW_H
#define GOLAYOUT_VIEW_H

#include <string.h>

#include "golayout/golayout.h"

/* Of the structures of Go 1.17 to 1.27, g has 456 bytes at most and m 2,024. */
#define GOLAYOUT_G_LIMIT 4096
#define GOLAYOUT_M_LIMIT 8192

/* g.atomicstatus: runtime/runtime2.go. */
enum goroutine_status {
	G_IDLE = 0,
	G_RUNNABLE = 1,
	G_RUNNING = 2,
	G_SYSCALL = 3,
	G_WAITING = 4,
	G_DEAD = 6,
	G_COPYSTACK = 8,
	G_PREEMPTED = 9,
	G_LEAKED = 10,
	G_DEADEXTRA = 11,
};

/* A bit of it: the stack is being scanned. */
#define G_SCAN 0x1000u

/* How many bytes have to be read of a g, or an m: up to the end of the last field that fields.def
 * names. At most the limit of a golayout that golayout_open() has accepted. */
size_t golayout_g_bytes(const struct golayout_numbers *n);
size_t golayout_m_bytes(const struct golayout_numbers *n);

/* ERROR_CORRUPT: a target cannot have so many goroutines, for their g's would not fit the memory
 * that it has. Whoever reads a list of them asks first. */
struct error *golayout_check_count(const struct golayout *lay, const struct target *t,
				   uint64_t count) must_check;

struct g_view {
	const struct golayout_numbers *n;
	const uint8_t *bytes;
};

struct m_view {
	const struct golayout_numbers *n;
	const uint8_t *bytes;
};

#define VIEW_FIELD(object, name, type)                                                 \
	static inline type object##_view_##name(struct object##_view v)                \
	{                                                                              \
		type value = 0; /* of a version without this field */                  \
                                                                                       \
		if (v.n->object##_##name != GOLAYOUT_ABSENT)                           \
			memcpy(&value, v.bytes + v.n->object##_##name, sizeof(value)); \
		return value;                                                          \
	}

VIEW_FIELD(g, stack_lo, uint64_t)
VIEW_FIELD(g, stack_hi, uint64_t)
VIEW_FIELD(g, m, uint64_t)
VIEW_FIELD(g, sched_sp, uint64_t)
VIEW_FIELD(g, sched_pc, uint64_t)
VIEW_FIELD(g, sched_g, uint64_t)
VIEW_FIELD(g, sched_lr, uint64_t)
VIEW_FIELD(g, sched_bp, uint64_t)
VIEW_FIELD(g, syscallsp, uint64_t)
VIEW_FIELD(g, syscallpc, uint64_t)
VIEW_FIELD(g, status, uint32_t) /* with G_SCAN */
VIEW_FIELD(g, goid, uint64_t)
VIEW_FIELD(g, waitsince, uint64_t)
VIEW_FIELD(g, waitreason, uint8_t)
VIEW_FIELD(g, tracking_seq, uint8_t)
VIEW_FIELD(g, lockedm, uint64_t)
VIEW_FIELD(g, parent_goid, uint64_t)
VIEW_FIELD(g, gopc, uint64_t)
VIEW_FIELD(g, startpc, uint64_t)
VIEW_FIELD(g, labels, uint64_t)
VIEW_FIELD(g, bubble, uint64_t)
VIEW_FIELD(g, sync_group, uint64_t)

VIEW_FIELD(m, g0, uint64_t)
VIEW_FIELD(m, procid, uint64_t)
VIEW_FIELD(m, gsignal, uint64_t)
VIEW_FIELD(m, curg, uint64_t)
VIEW_FIELD(m, p, uint64_t)
VIEW_FIELD(m, id, uint64_t)
VIEW_FIELD(m, incgo, uint8_t)
VIEW_FIELD(m, alllink, uint64_t)
VIEW_FIELD(m, lockedg, uint64_t)

#undef VIEW_FIELD

#endif
