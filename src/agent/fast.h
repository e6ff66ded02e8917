/*
 * The changes of state that are by far the most frequent: a goroutine is made, is started, blocks,
 * is unblocked, ends. What is common is done here, with few instructions; all else is left to
 * agent.c: 0 says so, and nothing was done. Part of the agent: agent.c alone has it.
 */
#ifndef AGENT_FAST_H
#define AGENT_FAST_H

#include "agent/stacks.h"

/* The same number as unsigned LEB128, but of exactly two, three or four bytes. */
INLINE uint32_t two_bytes(uint32_t value)
{
	return (value & 0x7f) | 0x80 | (value << 1 & 0x7f00);
}

INLINE uint32_t three_bytes(uint32_t value)
{
	return (value & 0x7f) | 0x8080 | (value << 1 & 0x7f00) | (value << 2 & 0x7f0000);
}

INLINE uint32_t four_bytes(uint32_t value)
{
	return three_bytes(value) | 0x800000 | (value << 3 & 0x7f000000);
}

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
	return s->limit - s->write >= AGENT_MAX_RECORD && s->thread == word(m, k->m_procid);
}

/* Where the goid goes of the record that is being made: its kind and a time of two bytes are put
 * before it last of all. */
INLINE uint8_t *fast_body(const struct agent_slot *s)
{
	return (uint8_t *)(s->bias + s->write + 3);
}

/* The line of the ring that comes next is not in this processor's cache, for gospect was the last
 * to have it: the next locked instruction, which is the runtime's, would wait for the store. */
INLINE void prefetch_line_behind(const uint8_t *at)
{
	__asm__ volatile("prefetchw %0" : : "m"(at[64]));
}

/*
 * The record, of now. The processor does nothing behind rdtsc before that is done, while what is
 * before goes on beside it: so all else is. 0: it is too long since the record before.
 */
INLINE int fast_record_now(struct agent_slot *s, enum agent_record kind, const uint8_t *end)
{
	uint64_t tick = s->tick, write = s->write, since = clock() - tick;

	if (UNLIKELY(since >= 1 << 14))
		return 0;
	s->tick = tick + since;
	*(volatile uint16_t *)(s->bias + write + 1) = two_bytes(since);
	*(volatile uint8_t *)(s->bias + write) = kind;
	prefetch_line_behind(end);
	__atomic_store_n(&s->write, (uint64_t)end - s->bias, __ATOMIC_RELEASE);
	return 1;
}

/* The goroutine is all that it says. */
INLINE int fast_record_of(struct agent_slot *s, enum agent_record kind, uint64_t goid)
{
	const uint8_t *end = put_goid(fast_body(s), goid);

	return end && fast_record_now(s, kind, end);
}

/* One of the collector's, which wait as nobody else does. What p.gcMarkWorkerMode says is in a page
 * that otherwise nobody reads. */
INLINE int is_worker(const struct agent_config *k, uint64_t g)
{
	uint32_t reason = byte(g, k->g_waitreason);

	return reason == k->worker_reason || reason == k->worker_active_reason;
}

INLINE int fast_start(struct agent_slot *s, const struct agent_config *k, uint64_t g, uint64_t m,
		      uint64_t bp)
{
	if (is_worker(k, g) || in_range(&k->coroswitch_m, word(bp, 8)) || !is_ready(s, k, m))
		return 0;
	return fast_record_of(s, RECORD_START, word(g, k->g_goid));
}

/* Of the goroutine g, which stands where it has called the scheduler; 0: not to be had here. */
INLINE uint32_t fast_stack(const struct agent_slot *s, const struct agent_config *k, uint64_t g)
{
	uint64_t pc = word(g, k->g_sched_pc), low = word(g, k->g_sched_sp);

	if (pc == k->systemstack_switch)
		pc = word(low, 0) | AGENT_WORD_AT_SP;
	return guess(s, pc, word(g, k->g_sched_bp), low, word(g, k->g_stack_hi));
}

INLINE int fast_wait(struct agent_slot *s, const struct agent_config *k, uint64_t g, uint64_t m,
		     uint64_t bp)
{
	uint32_t stack, reason = byte(g, k->g_waitreason);
	uint8_t *at;

	if (!in_range(&k->park_m, word(bp, 8)) || !is_ready(s, k, m) || reason >= 0x80)
		return 0;
	at = put_goid(fast_body(s), word(g, k->g_goid));
	stack = fast_stack(s, k, g);
	if (!stack || !at)
		return 0;
	*(volatile uint32_t *)at = reason | three_bytes(stack) << 8;
	return fast_record_now(s, RECORD_BLOCK, at + 4);
}

/* Of who called the function that changes the state now; 0: not to be had here. */
INLINE uint32_t fast_stack_of_runner(const struct agent_slot *s, const struct agent_config *k,
				     uint64_t m, uint64_t runner)
{
	uint64_t curg = word(m, k->m_curg);

	if (!curg || curg == runner || half(curg, k->g_status) != G_RUNNING)
		return 0;
	return fast_stack(s, k, curg);
}

INLINE int fast_ready(struct agent_slot *s, const struct agent_config *k, uint64_t g, uint64_t m,
		      uint64_t runner, uint64_t bp)
{
	uint32_t stack;
	uint8_t *at;

	if (in_range(&k->coroswitch_m, word(bp, 8)) || !is_ready(s, k, m))
		return 0;
	stack = fast_stack_of_runner(s, k, m, runner);
	if (!stack)
		return 0;
	at = put_goid(fast_body(s), word(g, k->g_goid));
	if (!at)
		return 0;
	*(volatile uint32_t *)at = three_bytes(stack);
	return fast_record_now(s, RECORD_UNBLOCK, at + 3);
}

/* Of a goroutine that enters a system call: it will be at pc then, in the frame at bp. */
INLINE int fast_syscall(struct agent_slot *s, const struct agent_config *k, uint64_t g, uint64_t m,
			uint64_t pc, uint64_t bp, uint64_t sp)
{
	uint32_t stack;
	uint8_t *at;

	if (!is_ready(s, k, m))
		return 0;
	at = put_goid(fast_body(s), word(g, k->g_goid));
	stack = guess(s, pc, bp, sp, word(g, k->g_stack_hi));
	if (!stack || !at)
		return 0;
	*(volatile uint32_t *)at = three_bytes(stack);
	return fast_record_now(s, RECORD_SYSCALL, at + 3);
}

INLINE int fast_of_one(struct agent_slot *s, const struct agent_config *k, enum agent_record kind,
		       uint64_t g, uint64_t m)
{
	if (!is_ready(s, k, m))
		return 0;
	return fast_record_of(s, kind, word(g, k->g_goid));
}

/* Up to Go 1.25: called on the goroutine's own stack. */
INLINE int fast_syscall_status(struct agent_slot *s, const struct agent_config *k, uint64_t g,
			       uint64_t m, uint64_t bp, uint64_t runner)
{
	if (k->syscall_is_hook || runner != g)
		return 0;
	return fast_syscall(s, k, g, m, word(bp, 8), word(bp, 0), word(m, k->m_vdso_sp));
}

INLINE int fast_syscall_exit_status(struct agent_slot *s, const struct agent_config *k, uint64_t g,
				    uint64_t m)
{
	return !k->syscall_is_hook && fast_of_one(s, k, RECORD_SYSCALL_EXIT, g, m);
}

/* Of one without labels. The least frequent, and large: elsewhere, so that the others are in one
 * page. */
NOINLINE int fast_create(struct agent_slot *s, const struct agent_config *k, uint64_t g, uint64_t m,
			 uint64_t runner)
{
	uint64_t p = word(m, k->m_p), id = word(g, k->g_goid);
	uint32_t stack;
	uint8_t *at;

	if (!p || word(g, k->g_labels) || !is_ready(s, k, m))
		return 0;
	if (k->goid_late) {
		id = word(p, k->p_goidcache);
		if (id == word(p, k->p_goidcacheend))
			return 0;
	}
	stack = fast_stack_of_runner(s, k, m, runner);
	if (!stack)
		return 0;
	at = put(put(fast_body(s), id), word(g, k->g_startpc) - k->text);
	*(volatile uint32_t *)at = three_bytes(stack);
	return fast_record_now(s, RECORD_CREATE, at + 3);
}

#endif
