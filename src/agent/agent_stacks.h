/*
 * The stack of a goroutine by frame pointers, and its number in the table that gospect
 * reads. Part of the agent: agent.c alone has it, all of it inline or its own.
 */
#ifndef AGENT_AGENT_STACKS_H
#define AGENT_AGENT_STACKS_H

#include "agent/call.h"

NOINLINE uint32_t stack_store(struct agent_slot *s, struct agent_shared *sh,
			      struct agent_stack *entry, uint32_t id, uint32_t n)
{
	uint64_t at = __atomic_fetch_add(&sh->arena_used, n + 1, __ATOMIC_RELAXED);
	uint64_t *arena = (uint64_t *)((uint64_t)sh + sh->arena_offset);

	__atomic_fetch_add(&sh->stacks, 1, __ATOMIC_RELAXED);
	if (at + n + 1 > sh->arena_words) {
		s->stacks_lost++;
		return 0;
	}
	arena[at] = n;
	for (uint32_t i = 0; i < n; i++)
		arena[at + 1 + i] = s->words[i];
	__atomic_store_n(&entry->offset, at + 1, __ATOMIC_RELEASE);
	return id;
}

/* Each word times a number of its own: none waits for the one before. */
INLINE uint64_t hash_of(const uint64_t *words, uint32_t n)
{
	uint64_t hash = n, factor = 0x9e3779b97f4a7c15ull;

	for (uint32_t i = 0; i < n; i++) {
		hash += words[i] * factor;
		factor *= 0xd1342543de82ef95ull;
	}
	hash ^= hash >> 32;
	hash *= 0xff51afd7ed558ccdull;
	return (hash ^ hash >> 29) | 1;
}

/* The number of the stack in slot->words; 0 when the table has no room for it. */
NOINLINE uint32_t stack_intern(struct agent_slot *s, struct agent_shared *sh, uint32_t n)
{
	struct agent_stack *table = (struct agent_stack *)((uint64_t)sh + sh->table_offset);
	uint64_t hash = hash_of(s->words, n);
	uint32_t at = hash >> 32;

	for (uint32_t probe = 0; probe < AGENT_MAX_PROBES; probe++, at++) {
		struct agent_stack *entry = &table[at &= AGENT_TABLE_SLOTS - 1];
		uint64_t seen = __atomic_load_n(&entry->hash, __ATOMIC_ACQUIRE);

		if (LIKELY(seen == hash))
			return at + 1;
		if (seen)
			continue;
		if (sh->stacks > AGENT_TABLE_SLOTS / 4 * 3)
			break;
		if (__atomic_compare_exchange_n(&entry->hash, &seen, hash, 0, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return stack_store(s, sh, entry, at + 1, n);
		if (seen == hash)
			return at + 1;
	}
	s->stacks_lost++;
	return 0;
}

/* The frame at bp is on the stack from `low` to `high`. */
INLINE int is_on_stack(uint64_t bp, uint64_t low, uint64_t high)
{
	return bp + CPU_RECORD_BELOW_SP >= low && bp <= high - 16 && !(bp & 7);
}

/* To where the caller of the patched function returns; 0: frame pointers do not say it. On arm64,
 * Go moves stacks without the frame pointers in them, and in Go 1.17 some are 0. */
INLINE uint64_t return_address_of_caller(const struct call *c)
{
	uint64_t bp = word(c->bp, 0), high = word(c->g, c->config->g_stack_hi);

	return is_on_stack(bp, c->bp + 16, high) ? word(bp, 8) : 0;
}

/* Follows the frame pointers of g's stack, above `low`, from the frame at bp on; `n` words are
 * there already. */
NOINLINE uint32_t walk(struct agent_slot *s, const struct agent_config *k, uint32_t n, uint64_t bp,
		       uint64_t low, uint64_t g)
{
	uint64_t *words = s->words, high = word(g, k->g_stack_hi);

	while (is_on_stack(bp, low, high)) {
		uint64_t pc = word(bp, 8);

		if (!pc)
			break;
		if (n >= k->depth) {
			words[n++] = word(g, k->g_startpc) | AGENT_WORD_CUT;
			break;
		}
		words[n++] = pc;
		low = bp + 16;
		bp = word(bp, 0);
	}
	return n;
}

/* The two index entries of this key. */
INLINE uint8_t *stack_cache_numbers(struct agent_slot *s, uint64_t pc, uint64_t height)
{
	return &s->stack_cache_index[(pc ^ pc >> 8 ^ height >> 3) & (AGENT_CACHED_STACKS - 2)];
}

/* 0: the entry has this key. */
INLINE uint32_t key_differs(const struct agent_cached_stack *e, uint64_t pc, uint64_t height)
{
	return (e->pc ^ (uint32_t)pc) | (e->height ^ (uint32_t)(height / 8));
}

/* Two return addresses in one word. They are of one program, so their upper halves hardly differ.
 */
INLINE uint64_t both(uint64_t first, uint64_t second)
{
	return first ^ (second << 32 | second >> 32);
}

/* Of `pc` and of the return addresses where the entry has them, in the frames from bp on. Not a
 * branch for each, and no line but these is read. */
INLINE uint64_t hash_of_frames(const struct agent_cached_stack *e, uint64_t pc, uint64_t bp)
{
	const uint64_t *returns = (const uint64_t *)(bp + 8);
	const uint16_t *at = e->at, *end = at + e->count;
	uint64_t hash = pc;

	do {
		hash *= 0x9fb21c651e98df25ull;
		hash += both(returns[at[0]], returns[at[1]]) * 0x9e3779b97f4a7c15ull;
		hash += both(returns[at[2]], returns[at[3]]) * 0xd1342543de82ef95ull;
		at += AGENT_BLOCK_FRAMES;
	} while (at < end);
	return hash;
}

/* Whether the entry is the stack whose frames begin at bp; `pc` is the word before. The entry has
 * the same height, so none of its frames lies outside the stack. */
INLINE int stack_cache_holds(const struct agent_cached_stack *e, uint64_t pc, uint64_t bp,
			     uint64_t high)
{
	return LIKELY(!key_differs(e, pc, high - bp)) &&
	       LIKELY(hash_of_frames(e, pc, bp) == e->hash);
}

FREQUENT NOINLINE uint32_t stack_cache_second(struct agent_slot *s, uint64_t pc, uint64_t bp,
					      uint64_t high)
{
	const struct agent_cached_stack *e =
		&s->stack_cache[stack_cache_numbers(s, pc, high - bp)[1]];

	if (stack_cache_holds(e, pc, bp, high))
		return e->stack;
	return s->config.depth ? 0 : three_bytes(0);
}

/* Looks up the stack whose frames begin at bp; `pc` is the word before. Returns its number as
 * LEB128 of three bytes; that of the empty stack when stacks are off; 0: not in the cache. */
INLINE uint32_t stack_cache_find(struct agent_slot *s, uint64_t pc, uint64_t bp, uint64_t high)
{
	const struct agent_cached_stack *e =
		&s->stack_cache[stack_cache_numbers(s, pc, high - bp)[0]];

	return stack_cache_holds(e, pc, bp, high) ? e->stack : stack_cache_second(s, pc, bp, high);
}

/* The same, where that is not frequent. */
NOINLINE uint32_t known_stack(struct agent_slot *s, uint64_t pc, uint64_t bp, uint64_t low,
			      uint64_t high)
{
	return is_on_stack(bp, low, high) ? stack_cache_find(s, pc, bp, high) : 0;
}

/* The entry that this key overwrites: an unused one, or that of another key when all are in use. */
INLINE struct agent_cached_stack *stack_cache_victim(struct agent_slot *s, uint64_t pc,
						     uint64_t height)
{
	uint8_t *number = stack_cache_numbers(s, pc, height) + (s->stack_cache_turn++ & 1);

	if (!*number && s->stack_cache_used < AGENT_CACHED_STACKS - 1)
		*number = ++s->stack_cache_used;
	else if (!*number)
		*number = 1 + s->stack_cache_turn % (AGENT_CACHED_STACKS - 1);
	return &s->stack_cache[*number];
}

/* So many frames from bp on fit into an entry, and end where the stack does: else they go on where
 * they cannot be followed, as those of a thread of C's that has called back. */
INLINE int is_cacheable(uint32_t count, uint64_t bp, uint64_t height)
{
	uint64_t at = bp;

	if (!count || count > AGENT_CACHED_FRAMES || height / 8 > UINT32_MAX)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		if (at - bp > UINT16_MAX * 8ull)
			return 0;
		at = word(at, 0);
	}
	return !at;
}

INLINE void stack_cache_fill(struct agent_cached_stack *e, uint32_t count, uint64_t bp)
{
	uint64_t at = bp;
	uint32_t i = 0;

	for (; i < count; i++) {
		e->at[i] = (at - bp) / 8;
		at = word(at, 0);
	}
	while (i % AGENT_BLOCK_FRAMES)
		e->at[i++] = 0;
	e->count = i;
}

/* Inserts a stack that was walked from bp on: `count` frames behind the word `pc`. */
NOINLINE void stack_cache_insert(struct agent_slot *s, uint64_t pc, uint32_t count, uint64_t bp,
				 uint64_t height, uint32_t stack)
{
	struct agent_cached_stack *e;

	if (!is_cacheable(count, bp, height))
		return;
	e = stack_cache_victim(s, pc, height);
	stack_cache_fill(e, count, bp);
	e->hash = hash_of_frames(e, pc, bp);
	e->height = height / 8;
	e->pc = pc;
	e->stack = three_bytes(stack);
}

/* The number of the stack whose first `n` words are given and whose frames begin at bp. */
INLINE uint32_t stack_from(struct agent_slot *s, struct agent_shared *sh, uint32_t n, uint64_t bp,
			   uint64_t low, uint64_t g)
{
	const struct agent_config *k = &s->config;
	uint64_t high = word(g, k->g_stack_hi), height = high - bp;
	uint32_t count, stack = known_stack(s, s->words[n - 1], bp, low, high);

	if (LIKELY(stack))
		return of_three_bytes(stack);
	count = walk(s, k, n, bp, low, g);
	stack = stack_intern(s, sh, count);
	if (stack && !(s->words[count - 1] & AGENT_WORD_CUT))
		stack_cache_insert(s, s->words[n - 1], count - n, bp, height, stack);
	return stack;
}

/*
 * The first words of a goroutine that was preempted, where frame pointers leave out a caller: in
 * the prologue of a function, and by a signal in a function without a frame. The word at the stack
 * pointer goes with them: gospect knows whether it is the caller.
 */
NOINLINE uint32_t preempted_words(uint64_t *words, const struct agent_config *k, uint64_t g,
				  uint64_t *bp)
{
	uint64_t pc = word(g, k->g_sched_pc), frame = *bp;
	uint64_t low = word(g, k->g_sched_sp), high = word(g, k->g_stack_hi);

	words[0] = pc;
	if (in_range(&k->gosched, pc))
		return 1;
	if (!in_range(&k->async_preempt2, pc)) {
		words[1] =
			(k->g_sched_lr ? word(g, k->g_sched_lr) : word(low, 0)) | AGENT_WORD_AT_SP;
		return 2;
	}
	for (uint32_t n = 1; n < 3; n++) {
		if (frame + CPU_RECORD_BELOW_SP < low || frame > high - 8 - k->interrupted ||
		    frame & 7)
			return n;
		words[n] = word(frame, 8);
		if (n == 2)
			words[3] = word(frame, k->interrupted) | AGENT_WORD_AT_SP;
		low = frame + 16;
		frame = word(frame, 0);
		*bp = frame;
	}
	return 4;
}

/* The pc at which the goroutine g parked; `low` is its stack pointer. If it parked by systemstack,
 * a pc in the caller of systemstack. */
INLINE uint64_t parked_pc(const struct agent_config *k, uint64_t g, uint64_t low)
{
	uint64_t pc = steady(g, k->g_sched_pc);

	return LIKELY(pc != k->systemstack_switch) ? pc : word(low, 0) | AGENT_WORD_AT_SP;
}

/* The stack of the goroutine g, from where it was left: its thread is now on another stack. */
NOINLINE uint32_t stack_of_parked(struct agent_slot *s, struct agent_shared *sh, uint64_t g)
{
	const struct agent_config *k = &s->config;
	uint64_t pc = word(g, k->g_sched_pc), low = word(g, k->g_sched_sp);
	uint32_t n = 1;

	if (!k->depth)
		return 0;
	s->words[0] = pc;
	if (pc == k->systemstack_switch)
		s->words[n++] = word(low, 0) | AGENT_WORD_AT_SP;
	return stack_from(s, sh, n, word(g, k->g_sched_bp), low, g);
}

NOINLINE uint32_t stack_of_preempted(struct agent_slot *s, struct agent_shared *sh, uint64_t g)
{
	const struct agent_config *k = &s->config;
	uint64_t bp = word(g, k->g_sched_bp);
	uint32_t n;

	if (!k->depth)
		return 0;
	n = preempted_words(s->words, k, g, &bp);
	return stack_intern(s, sh, walk(s, k, n, bp, word(g, k->g_sched_sp), g));
}

/* The stack of the goroutine that called the patched function itself. */
NOINLINE uint32_t stack_of_caller(const struct call *c)
{
	c->slot->words[0] = return_address(c);
	return stack_from(c->slot, c->shared, 1, word(c->bp, 0), c->sp, c->g);
}

/* The stack of the goroutine that runs on this thread. */
INLINE uint32_t stack_of_runner(const struct call *c)
{
	const struct agent_config *k = c->config;
	uint64_t curg = word(c->m, k->m_curg);
	uint32_t state;

	if (!curg || !k->depth)
		return 0;
	if (UNLIKELY(curg == c->g))
		return stack_of_caller(c);
	state = half(curg, k->g_status) & ~G_SCAN;
	if (state != G_RUNNING && state != G_SYSCALL)
		return 0;
	return stack_of_parked(c->slot, c->shared, curg);
}

#endif
