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
/* mspan has 160 bytes at most, mheap 110 KB, and heapArena 2.2 MB. */
#define GOLAYOUT_SPAN_LIMIT 1024
#define GOLAYOUT_HEAP_LIMIT (1 << 20)
#define GOLAYOUT_ARENA_LIMIT (1 << 24)

/* How many bytes have to be read of a g, or an m: up to the end of the last field that fields.def
 * names. At most the limit of a golayout that golayout_open() has accepted. */
size_t golayout_g_bytes(const struct golayout_numbers *n);
size_t golayout_m_bytes(const struct golayout_numbers *n);
/* The same of what goroutines wait in: runtime.sudog, hchan, pollDesc and timer. */
size_t golayout_sudog_bytes(const struct golayout_numbers *n);
size_t golayout_hchan_bytes(const struct golayout_numbers *n);
size_t golayout_poll_bytes(const struct golayout_numbers *n);
size_t golayout_timer_bytes(const struct golayout_numbers *n);
/* The same of runtime.mspan. */
size_t golayout_span_bytes(const struct golayout_numbers *n);

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

struct span_view {
	const struct golayout_numbers *n;
	const uint8_t *bytes;
};

/* runtime.special and what follows it in a finalizer or cleanup: 56 bytes at most. */
#define GOLAYOUT_SPECIAL_BYTES 56

struct special_view {
	const struct golayout_numbers *n;
	const uint8_t *bytes;
};

struct moduledata_view {
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

VIEW_FIELD(span, start, uint64_t)
VIEW_FIELD(span, pages, uint64_t)
VIEW_FIELD(span, alloc_bits, uint64_t)
VIEW_FIELD(span, mark_bits, uint64_t)
VIEW_FIELD(span, sweepgen, uint32_t)
VIEW_FIELD(span, alloc_count, uint16_t)
VIEW_FIELD(span, class, uint8_t)
VIEW_FIELD(span, state, uint8_t)
VIEW_FIELD(span, element_size, uint64_t)
VIEW_FIELD(span, specials, uint64_t)
VIEW_FIELD(span, large_type, uint64_t)

VIEW_FIELD(special, next, uint64_t)
VIEW_FIELD(special, kind, uint8_t)

VIEW_FIELD(moduledata, data, uint64_t)
VIEW_FIELD(moduledata, edata, uint64_t)
VIEW_FIELD(moduledata, bss, uint64_t)
VIEW_FIELD(moduledata, ebss, uint64_t)
VIEW_FIELD(moduledata, next, uint64_t)
VIEW_FIELD(moduledata, types, uint64_t)
VIEW_FIELD(moduledata, etypes, uint64_t)

#undef VIEW_FIELD

/* Up to Go 1.23 it has 16 bits. */
static inline uint64_t special_view_offset(struct special_view v)
{
	uint64_t value = 0;

	memcpy(&value, v.bytes + v.n->special_offset,
	       v.n->special_kind - v.n->special_offset == 2 ? 2 : 8);
	return value;
}

/* runtime.bitvector: the number of bits, then their address. */
static inline uint64_t moduledata_view_mask(struct moduledata_view v, bool is_bss,
					    int32_t *ret_bits)
{
	int32_t at = is_bss ? v.n->moduledata_bss_mask : v.n->moduledata_data_mask;
	uint64_t address;

	memcpy(ret_bits, v.bytes + at, sizeof(*ret_bits));
	memcpy(&address, v.bytes + at + 8, sizeof(address));
	return address;
}

/* Words up to Go 1.21, and 16 bits from the version on that has largeType. */
static inline uint64_t span_view_narrow(struct span_view v, int32_t offset)
{
	uint64_t value = 0;

	if (offset != GOLAYOUT_ABSENT)
		memcpy(&value, v.bytes + offset,
		       v.n->span_large_type == GOLAYOUT_ABSENT ? sizeof(value) : sizeof(uint16_t));
	return value;
}

static inline uint64_t span_view_elements(struct span_view v)
{
	return span_view_narrow(v, v.n->span_elements);
}

static inline uint64_t span_view_free_index(struct span_view v)
{
	return span_view_narrow(v, v.n->span_free_index);
}

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

FIELD_ADDRESS(heap, sweepgen)
FIELD_ADDRESS(heap, all_spans)
FIELD_ADDRESS(heap, arenas)
FIELD_ADDRESS(heap, arena_list)
FIELD_ADDRESS(heap, user_arena_list)
FIELD_ADDRESS(heap, span_bytes)
FIELD_ADDRESS(heap, mcache_bytes)
FIELD_ADDRESS(heap, summary)
FIELD_ADDRESS(heap, chunks)
FIELD_ADDRESS(heap, scavenge_chunks)

FIELD_ADDRESS(arena, inline_marks)
FIELD_ADDRESS(arena, bitmap)
FIELD_ADDRESS(arena, no_more)

FIELD_ADDRESS(stats, heap)
FIELD_ADDRESS(stats, stacks)
FIELD_ADDRESS(stats, spans)
FIELD_ADDRESS(stats, mcaches)
FIELD_ADDRESS(stats, buckets)
FIELD_ADDRESS(stats, gc)
FIELD_ADDRESS(stats, other)
FIELD_ADDRESS(stats, cycles)
FIELD_ADDRESS(stats, last_gc)

FIELD_ADDRESS(gc, percent)
FIELD_ADDRESS(gc, memory_limit)
FIELD_ADDRESS(gc, heap_marked)
FIELD_ADDRESS(gc, triggered)
FIELD_ADDRESS(gc, sweep_trigger)
FIELD_ADDRESS(gc, heap_free)
FIELD_ADDRESS(gc, total_alloc)
FIELD_ADDRESS(gc, total_free)
FIELD_ADDRESS(gc, mapped_ready)

FIELD_ADDRESS(moduledata, bss)
FIELD_ADDRESS(moduledata, bss_end)

FIELD_ADDRESS(bubble, id)

#undef FIELD_ADDRESS

#endif
