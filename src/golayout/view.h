/*
 * Decodes the bytes of the runtime's g and m, and gives the addresses of fields in the target. The
 * target's DWARF decides the latter and may say anything, so this is the only code that adds such
 * an offset, to bytes in gospect's own memory or to an address. Code that runs elsewhere is given
 * the numbers: the agent, its stubs, the surgeon (inject/runtime_words.h), and the program in the
 * kernel (oncpu/sample_program.c).
 *
 * Read golayout_g_bytes() or golayout_m_bytes() bytes before a view is made. Every field ends
 * within them, and golayout_open() has refused what is larger than the limits below.
 */
#ifndef GOLAYOUT_VIEW_H
#define GOLAYOUT_VIEW_H

#include <string.h>

#include "golayout/golayout.h"
#include "golayout/status.h"

/* In Go 1.17 to 1.27, g has 456 bytes at most and m 2,024. */
#define GOLAYOUT_G_LIMIT 4096
#define GOLAYOUT_M_LIMIT 8192
/* Of what a goroutine waits in: sudog, hchan, pollDesc and timer have 280 bytes at most. */
#define GOLAYOUT_WAIT_LIMIT 512

/* How many bytes have to be read of a g, or an m: up to the end of the last field that fields.def
 * names. At most the limit of a golayout that golayout_open() has accepted. */
size_t golayout_g_bytes(const struct golayout_numbers *n);
size_t golayout_m_bytes(const struct golayout_numbers *n);
/* The same of what goroutines wait in: runtime.sudog, hchan, pollDesc and timer. */
size_t golayout_sudog_bytes(const struct golayout_numbers *n);
size_t golayout_hchan_bytes(const struct golayout_numbers *n);
size_t golayout_poll_bytes(const struct golayout_numbers *n);
size_t golayout_timer_bytes(const struct golayout_numbers *n);

/* ERROR_CORRUPT: the target's memory is too small for so many g's. Check the count before reading
 * the list of them. */
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

struct sudog_view {
	const struct golayout_numbers *n;
	const uint8_t *bytes;
};

struct hchan_view {
	const struct golayout_numbers *n;
	const uint8_t *bytes;
};

struct poll_view {
	const struct golayout_numbers *n;
	const uint8_t *bytes;
};

struct timer_view {
	const struct golayout_numbers *n;
	const uint8_t *bytes;
};

/* Of the runtime's profiles: runtime/mprof.go. */
struct bucket_view {
	const struct golayout_numbers *n;
	const uint8_t *bytes;
};

#define VIEW_FIELD(object, name, type)                                                 \
	static inline type object##_view_##name(struct object##_view v)                \
	{                                                                              \
		type value = 0; /* for a version without this field */                 \
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
VIEW_FIELD(g, waiting, uint64_t)
VIEW_FIELD(g, timer, uint64_t)

VIEW_FIELD(m, g0, uint64_t)
VIEW_FIELD(m, procid, uint64_t)
VIEW_FIELD(m, gsignal, uint64_t)
VIEW_FIELD(m, curg, uint64_t)
VIEW_FIELD(m, p, uint64_t)
VIEW_FIELD(m, id, uint64_t)
VIEW_FIELD(m, incgo, uint8_t)
VIEW_FIELD(m, alllink, uint64_t)
VIEW_FIELD(m, lockedg, uint64_t)

VIEW_FIELD(sudog, g, uint64_t)
VIEW_FIELD(sudog, next, uint64_t)
VIEW_FIELD(sudog, elem, uint64_t)
VIEW_FIELD(sudog, waitlink, uint64_t)
VIEW_FIELD(sudog, c, uint64_t)

VIEW_FIELD(hchan, qcount, uint64_t)
VIEW_FIELD(hchan, dataqsiz, uint64_t)
VIEW_FIELD(hchan, closed, uint32_t)
VIEW_FIELD(hchan, timer, uint64_t)
VIEW_FIELD(hchan, recvq, uint64_t)
VIEW_FIELD(hchan, sendq, uint64_t)

VIEW_FIELD(poll, fd, uint64_t)
VIEW_FIELD(poll, rg, uint64_t)
VIEW_FIELD(poll, wg, uint64_t)

VIEW_FIELD(timer, when, uint64_t)

VIEW_FIELD(bucket, allnext, uint64_t)
VIEW_FIELD(bucket, typ, uint64_t)
VIEW_FIELD(bucket, size, uint64_t)
VIEW_FIELD(bucket, nstk, uint64_t)

#undef VIEW_FIELD

/* The address of a field of the object at this address; 0: this version has no such field. */
#define FIELD_ADDRESS(object, name)                                                             \
	static inline uint64_t object##_at_##name(const struct golayout_numbers *n,             \
						  uint64_t object)                              \
	{                                                                                       \
		return n->object##_##name == GOLAYOUT_ABSENT ? 0 : object + n->object##_##name; \
	}

FIELD_ADDRESS(g, goid)
FIELD_ADDRESS(g, labels)
FIELD_ADDRESS(g, m)
FIELD_ADDRESS(g, sched_sp)
FIELD_ADDRESS(g, stack_hi)
FIELD_ADDRESS(g, stack_lo)
FIELD_ADDRESS(g, status)
FIELD_ADDRESS(g, tracking_seq)

FIELD_ADDRESS(m, alllink)
FIELD_ADDRESS(m, createstack)
FIELD_ADDRESS(m, curg)
FIELD_ADDRESS(m, g0)
FIELD_ADDRESS(m, gsignal)
FIELD_ADDRESS(m, p)
FIELD_ADDRESS(m, procid)
FIELD_ADDRESS(m, syscalltick)

FIELD_ADDRESS(p, goidcache)
FIELD_ADDRESS(p, goidcacheend)
FIELD_ADDRESS(p, id)
FIELD_ADDRESS(p, status)

FIELD_ADDRESS(sched, goidgen)

FIELD_ADDRESS(gc, heap_goal)
FIELD_ADDRESS(gc, heap_live)
FIELD_ADDRESS(gc, percent_goal)

FIELD_ADDRESS(bubble, id)

#undef FIELD_ADDRESS

#endif
