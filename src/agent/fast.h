/*
 * The most frequent state changes: a goroutine is created, starts, blocks, is unblocked, ends.
 * These functions handle the common case with few instructions. They return 0, having done nothing,
 * for all others, which agent.c handles. Part of the agent: agent.c alone includes it.
 */
#ifndef AGENT_FAST_H
#define AGENT_FAST_H

#include "agent/agent_stacks.h"

INLINE uint8_t *put(uint8_t *at, uint64_t value)
{
	while (value >= 0x80) {
		*at++ = value | 0x80;
		value >>= 7;
	}
	*at++ = value;
	return at;
}

/* NULL: it is too large for this. */
INLINE uint8_t *put_goid(uint8_t *at, uint64_t id)
{
	if (LIKELY(id < 1 << 14)) {
		*(volatile uint16_t *)at = two_bytes(id);
		return at + 2;
	}
	*(volatile uint32_t *)at = four_bytes(id);
	return LIKELY(id < 1 << 28) ? at + 4 : 0;
}

/* There is room for a record, which is of the same thread as the one before it. */
INLINE int is_ready(const struct agent_slot *s, const struct agent_config *k, uint64_t m)
{
	return s->limit - s->write >= AGENT_MAX_RECORD && s->thread == steady(m, k->m_procid);
}

/* Where the goid goes of the record that is being made: its kind and a time of three bytes are put
 * before it last of all. */
INLINE uint8_t *fast_body(const struct agent_slot *s)
{
	return (uint8_t *)(s->bias + s->write + 4);
}

/* The line of the ring that comes next is not in this CPU's cache, for gospect was the last
 * to have it: the next locked instruction, which is the runtime's, would wait for the store. */
INLINE void prefetch_line_behind(const uint8_t *at)
{
	cpu_prefetch(at + 64);
}

/*
 * Begins a record with the current time. Reading the clock of amd64 delays the instructions after
 * it until it is done, but not those before it: so all other work comes first. 0: too much time
 * passed since the last record.
 */
INLINE int fast_record_now(struct agent_slot *s, enum agent_record kind, const uint8_t *end)
{
	uint64_t tick = s->tick, write = s->write, since = cpu_clock() - tick;

	if (UNLIKELY(since >= 1 << 21))
		return 0;
	s->tick = tick + since;
	*(volatile uint32_t *)(s->bias + write) = three_bytes(since) << 8 | kind;
	prefetch_line_behind(end);
	__atomic_store_n(&s->write, (uint64_t)end - s->bias, __ATOMIC_RELEASE);
	return 1;
}

/*
 * The common part of all changes exists once: after the program has run other code, the agent's
 * code comes from the next level of cache. This record has a goroutine alone.
 */
FREQUENT NOINLINE int fast_record_of(struct agent_slot *s, enum agent_record kind, uint64_t goid)
{
	const uint8_t *end = put_goid(fast_body(s), goid);

	return end && fast_record_now(s, kind, end);
}

/* RECORD_BLOCK with the byte that follows its stack. */
INLINE uint32_t block_for(uint32_t reason)
{
	return RECORD_BLOCK | 1 << 8 | reason << 24;
}

/*
 * Records a goroutine and the stack whose frames begin at bp and that ends at `high`; `pc` is the
 * word before. `what` is a kind, or block_for().
 */
FREQUENT NOINLINE int fast_record_with_stack(struct agent_slot *s, uint32_t what, uint64_t goid,
					     uint64_t pc, uint64_t bp, uint64_t high)
{
	uint8_t *at = put_goid(fast_body(s), goid);
	uint32_t stack = stack_cache_find(s, pc, bp, high);

	if (UNLIKELY(!stack || !at))
		return 0;
	*(volatile uint32_t *)at = stack | (what & 0xff000000);
	return fast_record_now(s, what & 0xff, at + 3 + (what >> 8 & 0xff));
}

/* Records the goroutine g with the stack at its call of the scheduler. */
INLINE int fast_record_parked(struct agent_slot *s, const struct agent_config *k, uint32_t what,
			      uint64_t goid, uint64_t g)
{
	uint64_t low = steady(g, k->g_sched_sp), pc = parked_pc(k, g, low);
	uint64_t bp = steady(g, k->g_sched_bp), high = steady(g, k->g_stack_hi);

	if (UNLIKELY(!is_on_stack(bp, low, high)))
		return 0;
	return fast_record_with_stack(s, what, goid, pc, bp, high);
}

/* Whether it is a GC worker: only these have such wait reasons. p.gcMarkWorkerMode would say it
 * too, but is in a page that nothing else reads. */
INLINE int is_worker(const struct agent_config *k, uint64_t g)
{
	uint32_t reason = byte(g, k->g_waitreason);

	return reason == k->worker_reason || reason == k->worker_active_reason;
}

INLINE int fast_start(struct agent_slot *s, const struct agent_config *k, uint64_t g, uint64_t bp)
{
	if (is_worker(k, g) || in_range(&k->coroswitch_m, steady(bp, 8)))
		return 0;
	return fast_record_of(s, RECORD_START, steady(g, k->g_goid));
}

INLINE int fast_wait(struct agent_slot *s, const struct agent_config *k, uint64_t g, uint64_t bp)
{
	uint32_t reason = byte(g, k->g_waitreason);

	if (!in_range(&k->park_m, steady(bp, 8)) || reason >= 0x80)
		return 0;
	return fast_record_parked(s, k, block_for(reason), steady(g, k->g_goid), g);
}

/* curg, which is not `runner`, called the function that changes the state now. */
INLINE int is_caller(const struct agent_config *k, uint64_t curg, uint64_t runner)
{
	return curg && curg != runner && half(curg, k->g_status) == G_RUNNING;
}

/* Unblocked by no goroutine: by the scheduler itself, as for the network. */
INLINE int fast_ready_by_nobody(struct agent_slot *s, uint64_t goid)
{
	uint8_t *at = put_goid(fast_body(s), goid);

	if (UNLIKELY(!at))
		return 0;
	*at = 0;
	return fast_record_now(s, RECORD_UNBLOCK, at + 1);
}

INLINE int fast_ready(struct agent_slot *s, const struct agent_config *k, uint64_t g, uint64_t m,
		      uint64_t runner, uint64_t bp)
{
	uint64_t curg = steady(m, k->m_curg), goid = steady(g, k->g_goid);

	if (in_range(&k->coroswitch_m, steady(bp, 8)))
		return 0;
	if (!curg)
		return fast_ready_by_nobody(s, goid);
	return is_caller(k, curg, runner) ? fast_record_parked(s, k, RECORD_UNBLOCK, goid, curg)
					  : 0;
}

/* Records that a goroutine enters a system call at pc, in the frame at bp. */
INLINE int fast_syscall(struct agent_slot *s, const struct agent_config *k, uint64_t g, uint64_t pc,
			uint64_t bp, uint64_t sp)
{
	uint64_t high = steady(g, k->g_stack_hi);

	if (!is_on_stack(bp, sp, high))
		return 0;
	return fast_record_with_stack(s, RECORD_SYSCALL, steady(g, k->g_goid), pc, bp, high);
}

INLINE int fast_of_one(struct agent_slot *s, const struct agent_config *k, enum agent_record kind,
		       uint64_t g)
{
	return fast_record_of(s, kind, steady(g, k->g_goid));
}

/* Up to Go 1.25: called on the goroutine's own stack. */
INLINE int fast_syscall_status(struct agent_slot *s, const struct agent_config *k, uint64_t g,
			       uint64_t m, uint64_t bp, uint64_t runner)
{
	if (k->syscall_is_hook || runner != g)
		return 0;
	return fast_syscall(s, k, g, steady(bp, 8), steady(bp, 0), steady(m, k->m_vdso_sp));
}

INLINE int fast_syscall_exit_status(struct agent_slot *s, const struct agent_config *k, uint64_t g)
{
	return !k->syscall_is_hook && fast_of_one(s, k, RECORD_SYSCALL_EXIT, g);
}

/* Records the creation of a goroutine without labels. It is rare and large, so it lies apart and
 * the frequent functions share one page. */
NOINLINE int fast_create(struct agent_slot *s, const struct agent_config *k, uint64_t g, uint64_t m,
			 uint64_t runner)
{
	uint64_t p = steady(m, k->m_p), id = steady(g, k->g_goid), curg = steady(m, k->m_curg);
	uint64_t low;
	uint32_t stack;
	uint8_t *at;

	if (!p || !is_caller(k, curg, runner) || steady(g, k->g_labels))
		return 0;
	if (k->goid_late) {
		id = steady(p, k->p_goidcache);
		if (id == steady(p, k->p_goidcacheend))
			return 0;
	}
	low = steady(curg, k->g_sched_sp);
	stack = known_stack(s, parked_pc(k, curg, low), steady(curg, k->g_sched_bp), low,
			    steady(curg, k->g_stack_hi));
	if (!stack)
		return 0;
	at = put(put(fast_body(s), id), steady(g, k->g_startpc) - k->text);
	*(volatile uint32_t *)at = stack;
	return fast_record_now(s, RECORD_CREATE, at + 3);
}

#endif
