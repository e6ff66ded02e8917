/*
 * The agent: code inside the target, called by the thread that reached a patched instruction.
 *
 * The stub (hooks/stub.h) has taken a slot, so this is its only user; has switched to the
 * slot's own stack; and has saved the registers. Here a record is made and put into the slot's
 * ring. No system call, no lock, no loop without bound, no floating point; nothing is read but the
 * runtime's own structures and the stack of the goroutine at hand, which cannot move meanwhile; a
 * ring without room means a loss that is counted.
 *
 * This file is compiled without a C library into position-independent bytes without data of their
 * own (agent.lds). It uses no address but those it is given.
 */
#include "agent/agent_labels.h"
#include "agent/agent_request.h"
#include "agent/entry.h"
#include "agent/fast.h"

/* ---- records ---- */

/*
 * Where in the ring chunk number n goes, all before `read` having been given back: where the one
 * was that came back last, or, when none has, where nothing was so far.
 */
INLINE uint32_t place_chunk(struct agent_slot *s, uint32_t n, uint32_t read, uint32_t chunks)
{
	uint32_t place;

	for (uint32_t left = chunks; left && s->returned != read; left--) {
		place = s->returned + s->moved[s->returned & (chunks - 1)];
		s->free[s->free_count++ & (chunks - 1)] = place & (chunks - 1);
		s->returned++;
	}
	if (s->free_count)
		place = s->free[--s->free_count & (chunks - 1)];
	else
		place = s->fresh++;
	place &= chunks - 1;
	__atomic_store_n(&s->moved[n & (chunks - 1)], place - n, __ATOMIC_RELAXED);
	return place;
}

NOINLINE int next_chunk(struct agent_slot *s, uint32_t ring_bytes, uint64_t now, uint64_t thread)
{
	uint64_t start = (s->write + AGENT_CHUNK_BYTES - 1) & ~(AGENT_CHUNK_BYTES - 1ull);
	uint64_t read = __atomic_load_n(&s->read, __ATOMIC_ACQUIRE);
	struct agent_chunk *chunk;

	if (s->write != start)
		*(uint8_t *)(s->bias + s->write) = RECORD_NONE;
	if (start + AGENT_CHUNK_BYTES - read > ring_bytes)
		return 0;
	chunk = (void *)(s->ring +
			 AGENT_CHUNK_BYTES * (uint64_t)place_chunk(s, start / AGENT_CHUNK_BYTES,
								   read / AGENT_CHUNK_BYTES,
								   ring_bytes / AGENT_CHUNK_BYTES));
	chunk->tick = now;
	chunk->thread = thread;
	chunk->lost = s->lost;
	s->tick = now;
	s->thread = thread;
	s->lost = 0;
	s->limit = start + AGENT_CHUNK_BYTES;
	s->bias = (uint64_t)chunk - start;
	__atomic_store_n(&s->write, start + sizeof(*chunk), __ATOMIC_RELEASE);
	return 1;
}

/* gospect is gone: nothing reads the records or removes the agent. Switches all hooks off. */
NOINLINE void switch_off(struct agent_slot *s, struct agent_shared *sh)
{
	s->lost++;
	s->lost_all++;
	__atomic_store_n(&sh->switched_off, 1, __ATOMIC_RELEASE);
	__atomic_store_n((uint32_t *)sh->enabled, 0, __ATOMIC_RELEASE);
}

INLINE void look_for_gospect(struct agent_slot *s, struct agent_shared *sh, uint64_t now)
{
	int64_t since = (int64_t)(now - __atomic_load_n(&sh->seen, __ATOMIC_RELAXED));

	if (UNLIKELY(since > (int64_t)sh->absence))
		switch_off(s, sh);
}

/* Begins a record of at most `size` bytes; NULL, and the loss counted, when there is no room. */
INLINE uint8_t *record_begin(const struct call *c, enum agent_record kind, uint32_t size)
{
	struct agent_slot *s = c->slot;
	uint64_t now = cpu_clock(), thread = word(c->m, c->config->m_procid), since;
	uint8_t *at;

	look_for_gospect(s, c->shared, now);
	if (UNLIKELY(s->limit - s->write < size) &&
	    !next_chunk(s, c->shared->ring_bytes, now, thread)) {
		s->lost++;
		s->lost_all++;
		return 0;
	}
	at = (uint8_t *)(s->bias + s->write);
	if (UNLIKELY(thread != s->thread)) {
		*at++ = RECORD_M;
		at = put(at, thread);
		s->thread = thread;
	}
	since = now - s->tick;
	if (UNLIKELY((int64_t)since < 0))
		since = 0;
	s->tick += since;
	*at++ = kind;
	return put(at, since);
}

INLINE void record_end(const struct call *c, const uint8_t *at)
{
	struct agent_slot *s = c->slot;

	__atomic_store_n(&s->write, (uint64_t)at - s->bias, __ATOMIC_RELEASE);
}

INLINE uint8_t *put_numbers(uint8_t *at, uint32_t count, uint64_t a, uint64_t b, uint64_t d)
{
	at = put(at, a);
	if (count > 1)
		at = put(at, b);
	if (count > 2)
		at = put(at, d);
	return at;
}

/* A record that is of another thread than the one before, or long after it, or for which a new
 * chunk is needed. */
NOINLINE void record_slowly(const struct call *c, enum agent_record kind, uint32_t count,
			    uint64_t a, uint64_t b, uint64_t d)
{
	uint8_t *at = record_begin(c, kind, AGENT_MAX_RECORD);

	if (at)
		record_end(c, put_numbers(at, count, a, b, d));
}

/* A record of so many numbers. */
INLINE void record(const struct call *c, enum agent_record kind, uint32_t count, uint64_t a,
		   uint64_t b, uint64_t d)
{
	struct agent_slot *s = c->slot;

	if (UNLIKELY(!is_ready(s, c->config, c->m)) ||
	    !fast_record_now(s, kind, put_numbers(fast_body(s), count, a, b, d)))
		record_slowly(c, kind, count, a, b, d);
}

/* The same, where size counts more than time. */
NOINLINE void record_rare(const struct call *c, enum agent_record kind, uint32_t count, uint64_t a,
			  uint64_t b, uint64_t d)
{
	record(c, kind, count, a, b, d);
}

INLINE uint64_t goid(const struct call *c, uint64_t g)
{
	return g ? word(g, c->config->g_goid) : 0;
}

INLINE uint64_t runner_goid(const struct call *c)
{
	return goid(c, word(c->m, c->config->m_curg));
}

/* ---- labels ---- */

/* A set that this slot has not recorded, or not lately. */
NOINLINE int record_set(const struct call *c, uint64_t g, uint32_t number,
			const struct agent_label_set *set)
{
	uint8_t *at = record_begin(c, RECORD_LABELS, AGENT_MAX_RECORD + set->size);

	if (!at)
		return 0;
	at = put(put(put(put(at, g), number), set->cut), set->size);
	for (uint32_t i = 0; i < set->size; i++)
		*at++ = c->slot->labels[i];
	record_end(c, at);
	return 1;
}

/* The goroutine of this goid and address has the labels from now on. */
NOINLINE void record_labels(const struct call *c, uint64_t id, uint64_t g, uint64_t labels)
{
	struct agent_label_set set = {0};
	uint64_t *known;

	if (labels)
		agent_labels_copy(c->slot, c->shared, labels, &set);
	known = &c->slot->label_sets[set.hash & (AGENT_LABEL_SETS - 1)];
	if (set.unread) {
		c->slot->labels_unread++;
		record_rare(c, RECORD_LABELS_UNREAD, 3, id, g, labels);
	} else if (!set.size) {
		record_rare(c, RECORD_LABELS_NONE, 1, id, 0, 0);
	} else if (*known == set.hash) {
		record_rare(c, RECORD_LABELS_AGAIN, 2, id, set.hash & (AGENT_LABEL_SETS - 1), 0);
	} else if (record_set(c, id, set.hash & (AGENT_LABEL_SETS - 1), &set)) {
		*known = set.hash;
	}
}

/* ---- casgstatus(gp, old, new) ---- */

/*
 * The goid that newproc1() is about to give, up to Go 1.23: the next of the P's batch. When that is
 * used up, the P gets another here, as it would by newproc1() itself in a moment: looked at only,
 * the next batch could become another P's in between.
 */
INLINE uint64_t next_goid(const struct call *c)
{
	const struct agent_config *k = c->config;
	uint64_t p = word(c->m, k->m_p), next;

	if (UNLIKELY(!p))
		return 0;
	next = word(p, k->p_goidcache);
	if (LIKELY(next != word(p, k->p_goidcacheend)))
		return next;
	next = __atomic_fetch_add((uint64_t *)k->goidgen, AGENT_GOID_BATCH, __ATOMIC_SEQ_CST) + 1;
	set_word(p, k->p_goidcache, next);
	set_word(p, k->p_goidcacheend, next + AGENT_GOID_BATCH);
	return next;
}

NOINLINE void on_create(const struct call *c, uint64_t g)
{
	const struct agent_config *k = c->config;
	uint64_t id = k->goid_late ? next_goid(c) : goid(c, g), labels = word(g, k->g_labels);
	uint64_t before = c->slot->write;

	record_rare(c, RECORD_CREATE, 3, id, word(g, k->g_startpc) - k->text, stack_of_runner(c));
	/* It inherits its creator's labels. Their record is behind the creation's, or missing. */
	if (UNLIKELY(labels) && c->slot->write != before)
		record_labels(c, id, g, labels);
}

NOINLINE void on_start(const struct call *c, uint64_t g)
{
	const struct agent_config *k = c->config;
	uint64_t p = word(c->m, k->m_p);
	uint8_t mode = p && is_worker(k, g) ? byte(p, k->p_gc_worker_mode) : 0;

	if (in_range(&k->coroswitch_m, return_address(c)))
		return;
	if (mode)
		record_rare(c, RECORD_START_WORKER, 2, goid(c, g), mode, 0);
	else
		record_rare(c, RECORD_START, 1, goid(c, g), 0, 0);
}

/* A goroutine that is only made to look as if it waited, so that its stack can be scanned. */
NOINLINE void on_pretended_wait(const struct call *c, uint64_t g)
{
	const struct agent_config *k = c->config;

	if (in_range(&k->assist, return_address(c)) || byte(g, k->g_waitreason) == k->assist_reason)
		record_rare(c, RECORD_ASSIST_BEGIN, 2, goid(c, g), stack_of_runner(c), 0);
}

NOINLINE void on_wait(const struct call *c, uint64_t g)
{
	uint32_t stack;

	if (!in_range(&c->config->park_m, return_address(c))) {
		on_pretended_wait(c, g);
		return;
	}
	stack = stack_of_parked(c->slot, c->shared, g);
	record(c, RECORD_BLOCK, 3, goid(c, g), stack, byte(g, c->config->g_waitreason));
}

NOINLINE void on_ready(const struct call *c, uint64_t g)
{
	uint32_t stack;

	if (in_range(&c->config->coroswitch_m, return_address(c)))
		return;
	stack = stack_of_runner(c);
	record(c, RECORD_UNBLOCK, 2, goid(c, g), stack, 0);
}

/* goschedImpl was called for runtime.Gosched. (A goroutine that calls that may be about to be
 * preempted, so its g.preempt does not show it.) */
INLINE int by_itself(const struct call *c)
{
	uint64_t caller = return_address_of_caller(c);

	return in_range(&c->config->gosched_m, caller) ||
	       in_range(&c->config->goschedguarded_m, caller);
}

NOINLINE void on_runnable(const struct call *c, uint64_t g)
{
	const struct agent_config *k = c->config;

	if (in_range(&k->exitsyscall_no_p, return_address(c))) {
		record_rare(c, RECORD_SYSCALL_NO_P, 1, goid(c, g), 0, 0);
		return;
	}
	record_rare(c, by_itself(c) ? RECORD_YIELD : RECORD_PREEMPT, 2, goid(c, g),
		    stack_of_preempted(c->slot, c->shared, g), 0);
}

NOINLINE void on_exit(const struct call *c, uint64_t g)
{
	record_rare(c, RECORD_EXIT, 1, goid(c, g), 0, 0);
}

NOINLINE void on_syscall_status(const struct call *c, uint64_t g)
{
	const struct agent_config *k = c->config;

	if (!k->syscall_is_hook || in_range(&k->entersyscallblock, return_address(c)))
		record_rare(c, RECORD_SYSCALL, 2, goid(c, g), stack_of_runner(c), 0);
}

NOINLINE void on_rare_status(const struct call *c, uint64_t g, uint32_t old, uint32_t new)
{
	const struct agent_config *k = c->config;
	int dead = old == G_DEAD || old == k->dead_extra;
	int dies = new == G_DEAD || new == k->dead_extra;

	if (dead && new == G_SYSCALL)
		record_rare(c, RECORD_THREAD_ENTER, 1, goid(c, g), 0, 0);
	else if (dead && (new == G_RUNNABLE || new == G_WAITING))
		on_create(c, g);
	else if (old == G_SYSCALL && dies)
		record_rare(c, RECORD_THREAD_LEAVE, 1, goid(c, g), 0, 0);
	else if (old == G_RUNNING && dies)
		on_exit(c, g);
	else if (old == G_SYSCALL && new == G_RUNNING && !k->syscall_is_hook)
		record_rare(c, RECORD_SYSCALL_EXIT, 1, goid(c, g), 0, 0);
	else if (old == G_SYSCALL && new == G_RUNNABLE)
		record_rare(c, RECORD_SYSCALL_NO_P, 1, goid(c, g), 0, 0);
	else if (old == G_WAITING && new == G_RUNNING && in_range(&k->assist, return_address(c)))
		record_rare(c, RECORD_ASSIST_END, 1, goid(c, g), 0, 0);
}

/* From `old` to `new`. */
NOINLINE void on_other_change(const struct call *c, uint64_t g, uint32_t old, uint32_t new)
{
	if (old == G_RUNNING && new == G_RUNNABLE)
		on_runnable(c, g);
	else if (old == G_RUNNING && new == G_SYSCALL)
		on_syscall_status(c, g);
	else
		on_rare_status(c, g, old, new);
}

void agent_change(struct agent_slot *s, uint64_t g, uint32_t change, uint64_t m, uint64_t bp,
		  uint64_t runner)
{
	const struct agent_config *k = &s->config;
	struct agent_shared *sh = (struct agent_shared *)s->shared;
	struct call c = {s, k, sh, 0, runner, m, word(m, k->m_vdso_sp), bp, HOOK_CASGSTATUS};

	if (change == AGENT_CHANGE(G_RUNNABLE, G_RUNNING))
		on_start(&c, g);
	else if (change == AGENT_CHANGE(G_RUNNING, G_WAITING))
		on_wait(&c, g);
	else if (change == AGENT_CHANGE(G_WAITING, G_RUNNABLE))
		on_ready(&c, g);
	else
		on_other_change(&c, g, change >> 16, change & 0xffff);
}

FREQUENT int agent_status(struct agent_slot *s, uint64_t g, uint32_t change, uint64_t m,
			  uint64_t bp, uint64_t runner)
{
	const struct agent_config *k = &s->config;

	if (UNLIKELY(!is_ready(s, k, m)))
		return 0;
	if (change == AGENT_CHANGE(G_RUNNABLE, G_RUNNING))
		return fast_start(s, k, g, bp);
	if (change == AGENT_CHANGE(G_RUNNING, G_WAITING))
		return fast_wait(s, k, g, bp);
	if (change == AGENT_CHANGE(G_WAITING, G_RUNNABLE))
		return fast_ready(s, k, g, m, runner, bp);
	if (change == AGENT_CHANGE(G_RUNNING, G_SYSCALL))
		return fast_syscall_status(s, k, g, m, bp, runner);
	if (change == AGENT_CHANGE(G_SYSCALL, G_RUNNING))
		return fast_syscall_exit_status(s, k, g);
	if (change == AGENT_CHANGE(G_DEAD, G_RUNNABLE))
		return fast_create(s, k, g, m, runner);
	if (change == AGENT_CHANGE(G_RUNNING, G_DEAD))
		return fast_of_one(s, k, RECORD_EXIT, g);
	return 0;
}

/* ---- the other probe sites ---- */

/* reentersyscall(pc, sp, bp), by a goroutine, from Go 1.26 on. */
NOINLINE void on_syscall(const struct call *c, uint64_t pc, uint64_t bp)
{
	const struct agent_config *k = c->config;
	uint32_t stack = 0;

	if (k->depth) {
		c->slot->words[0] = pc;
		stack = stack_from(c->slot, c->shared, 1, bp, c->sp, c->g);
	}
	record_rare(c, RECORD_SYSCALL, 2, goid(c, c->g), stack, 0);
}

NOINLINE void syscall_slowly(struct agent_slot *s, uint64_t pc, uint64_t bp, uint64_t g,
			     uint64_t sp)
{
	const struct agent_config *k = &s->config;
	struct agent_shared *sh = (struct agent_shared *)s->shared;
	struct call c = {s, k, sh, 0, g, word(g, k->g_m), sp, 0, HOOK_SYSCALL};

	on_syscall(&c, pc, bp);
}

FREQUENT void agent_syscall(struct agent_slot *s, uint64_t pc, uint64_t m, uint64_t bp, uint64_t g,
			    uint64_t sp)
{
	if (!is_ready(s, &s->config, m) || !fast_syscall(s, &s->config, g, pc, bp, sp))
		syscall_slowly(s, pc, bp, g, sp);
}

NOINLINE void syscall_exit_slowly(struct agent_slot *s, uint64_t g)
{
	const struct agent_config *k = &s->config;
	struct agent_shared *sh = (struct agent_shared *)s->shared;
	struct call c = {s, k, sh, 0, g, word(g, k->g_m), 0, 0, HOOK_SYSCALL_EXIT};

	record_rare(&c, RECORD_SYSCALL_EXIT, 1, goid(&c, g), 0, 0);
}

FREQUENT void agent_syscall_exit(struct agent_slot *s, uint64_t pc, uint64_t m, uint64_t bp,
				 uint64_t g, uint64_t sp)
{
	if (!is_ready(s, &s->config, m) || !fast_of_one(s, &s->config, RECORD_SYSCALL_EXIT, g))
		syscall_exit_slowly(s, g);
}

NOINLINE void on_coro_switch(const struct call *c)
{
	const struct agent_config *k = c->config;
	uint64_t g = c->r->argument[0], coro = word(g, k->g_coroarg);
	uint64_t next = coro ? word(coro, k->coro_gp) : 0;

	if (byte(g, k->g_coroexit))
		record_rare(c, RECORD_CORO_EXIT, 2, goid(c, g), goid(c, next), 0);
	else
		record_rare(c, RECORD_CORO_SWITCH, 3, goid(c, g), goid(c, next),
			    stack_of_parked(c->slot, c->shared, g));
}

INLINE uint32_t p_id(const struct call *c, uint64_t p)
{
	return p ? half(p, c->config->p_id) : 0;
}

/* handoffp(p): only of a P that is taken from a thread in a system call (up to Go 1.25). */
NOINLINE void on_handoff(const struct call *c)
{
	uint64_t caller = return_address(c);

	if (in_range(&c->config->retake, caller) || in_range(&c->config->for_each_p, caller))
		record_rare(c, RECORD_P_STEAL, 1, p_id(c, c->r->argument[0]), 0, 0);
}

NOINLINE uint8_t *put_text(uint8_t *at, uint64_t text, uint64_t length)
{
	uint64_t n = length < AGENT_MAX_TEXT ? length : AGENT_MAX_TEXT;

	at = put(at, n);
	for (uint64_t i = 0; i < n; i++)
		*at++ = byte(text, i);
	return at;
}

/* task, or its parent in `second`; then a string or two: the arguments as Go passes them. */
NOINLINE void on_annotation(const struct call *c)
{
	const struct agent_registers *r = c->r;
	uint32_t stack = stack_of_runner(c);
	enum agent_record kind = RECORD_LOG;
	uint8_t *at;

	if (c->hook == HOOK_TASK_BEGIN)
		kind = RECORD_TASK_BEGIN;
	else if (c->hook == HOOK_TASK_END)
		kind = RECORD_TASK_END;
	else if (c->hook == HOOK_REGION)
		kind = r->argument[1] ? RECORD_REGION_END : RECORD_REGION_BEGIN;
	at = record_begin(c, kind, AGENT_MAX_RECORD + 2 * (AGENT_MAX_TEXT + 8));
	if (!at)
		return;
	at = put(put(at, runner_goid(c)), r->argument[0]);
	if (kind == RECORD_TASK_BEGIN)
		at = put(at, r->argument[1]);
	at = put(at, stack);
	if (kind == RECORD_LOG)
		at = put_text(put_text(at, r->argument[1], r->argument[2]), r->argument[3],
			      r->argument[4]);
	else if (kind != RECORD_TASK_END)
		at = put_text(at, r->argument[2], r->argument[3]);
	record_end(c, at);
}

/* ---- sweeping ---- */

/*
 * (*sweepLocked).sweep() was called for an allocation, not by the background sweeper. The runtime's
 * own tracer records these calls only. The caller may be direct or indirect.
 */
NOINLINE int is_for_allocation(const struct call *c)
{
	const struct agent_config *k = c->config;
	uint64_t caller = return_address(c);

	if (in_range(&k->sweepone, caller) || in_range(&k->reclaim_chunk, caller))
		caller = return_address_of_caller(c);
	return in_range(&k->cache_span, caller) || in_range(&k->deduct_sweep_credit, caller) ||
	       in_range(&k->reclaim, caller);
}

/* The first argument: where the address of the span is. */
NOINLINE void on_sweep_span(const struct call *c)
{
	struct agent_slot *s = c->slot;
	uint64_t before = s->write;

	if (!s->sweeps) {
		if (!is_for_allocation(c))
			return;
		record_rare(c, RECORD_SWEEP_BEGIN, 2, runner_goid(c), stack_of_runner(c), 0);
		s->sweeps = s->write != before;
		s->swept = 0;
	}
	s->swept += word(word(c->r->argument[0], 0), AGENT_SPAN_NPAGES) * AGENT_PAGE_BYTES;
}

NOINLINE void on_sweep_done(const struct call *c)
{
	if (!c->slot->sweeps)
		return;
	c->slot->sweeps = 0;
	record_rare(c, RECORD_SWEEP_END, 2, runner_goid(c), c->slot->swept, 0);
}

/* ---- allocations ---- */

/* mProf_Malloc: its arguments are the object and its size, from Go 1.23 on the M before them. */
NOINLINE void on_alloc(const struct call *c)
{
	const struct agent_config *k = c->config;
	uint64_t size = k->alloc_size_is_third ? c->r->argument[2] : c->r->argument[1];
	uint32_t stack = stack_of_runner(c);
	uint8_t *at = record_begin(c, RECORD_ALLOC, AGENT_MAX_RECORD);

	if (!at)
		return;
	at = put(put(at, runner_goid(c)), stack);
	record_end(c, put(put(at, size), word(k->mem_profile_rate, 0)));
}

NOINLINE void on_other(const struct call *c)
{
	const struct agent_config *k = c->config;

	switch (c->hook) {
	case HOOK_PREEMPT_PARK:
		record_rare(c, RECORD_BLOCK_PREEMPT, 2, goid(c, c->r->argument[0]),
			    stack_of_preempted(c->slot, c->shared, c->r->argument[0]), 0);
		break;
	case HOOK_CORO_SWITCH:
		on_coro_switch(c);
		break;
	case HOOK_SYSCALL_EXIT:
		record_rare(c, RECORD_SYSCALL_EXIT, 1, goid(c, c->g), 0, 0);
		break;
	case HOOK_P_START:
		record_rare(c, RECORD_P_START, 1, p_id(c, c->r->argument[0]), 0, 0);
		break;
	case HOOK_P_STOP:
		record_rare(c, RECORD_P_STOP, 1, p_id(c, word(c->m, k->m_p)), 0, 0);
		break;
	case HOOK_P_STEAL:
		record_rare(c, RECORD_P_STEAL, 1, p_id(c, c->r->argument[2]), 0, 0);
		break;
	case HOOK_P_HANDOFF:
		on_handoff(c);
		break;
	case HOOK_STW_BEGIN:
		record_rare(c, RECORD_STW_BEGIN, 3, runner_goid(c), c->r->argument[0] & 0xff,
			    stack_of_runner(c));
		break;
	case HOOK_STW_END:
		record_rare(c, RECORD_STW_END, 1, runner_goid(c), 0, 0);
		break;
	case HOOK_GC_BEGIN:
		record_rare(c, RECORD_GC_BEGIN, 2, runner_goid(c), stack_of_runner(c), 0);
		break;
	case HOOK_GC_END:
		record_rare(c, RECORD_GC_END, 1, runner_goid(c), 0, 0);
		break;
	case HOOK_SWEEP_SPAN:
		on_sweep_span(c);
		break;
	case HOOK_SWEEP_DONE:
	case HOOK_SWEEP_DONE_FOUND:
	case HOOK_SWEEP_DONE_NONE:
	case HOOK_SWEEP_DONE_RECLAIM:
		on_sweep_done(c);
		break;
	case HOOK_LABELS:
		record_labels(c, goid(c, c->g), c->g, c->r->argument[0]);
		break;
	case HOOK_ALLOC:
		on_alloc(c);
		break;
	default:
		on_annotation(c);
	}
}

/* ---- requests ---- */

/* Of the request that the goroutine is about to serve. */
NOINLINE void record_request(const struct call *c, enum agent_request_place place)
{
	uint64_t request = place == REQUEST_IN_THIRD ? c->r->argument[2] : c->r->argument[3];
	uint8_t *at = record_begin(c, RECORD_REQUEST, AGENT_MAX_RECORD + AGENT_REQUEST_BYTES);
	uint8_t *length, *end;

	if (!at)
		return;
	length = put(at, goid(c, c->g));
	end = place == REQUEST_OF_GRPC ? agent_grpc_copy(c->shared, request, length + 2)
				       : agent_request_copy(c->shared, request, length + 2);
	*(volatile uint16_t *)length = two_bytes(end - length - 2);
	record_end(c, end);
}

NOINLINE void record_route(const struct call *c, uint64_t data, uint64_t length)
{
	uint8_t *at;

	if (!length)
		return;
	at = record_begin(c, RECORD_ROUTE, AGENT_MAX_RECORD + AGENT_MAX_ROUTE);
	if (!at)
		return;
	at = put(at, goid(c, c->g));
	record_end(c, agent_string_copy(c->shared, data, length, AGENT_MAX_ROUTE, at));
}

NOINLINE void record_route_field(const struct call *c, const struct agent_entry_site *site)
{
	const struct go_string *route =
		agent_route_field(c->shared, c->r->argument[1], site->frame);

	if (route)
		record_route(c, route->data, route->length);
}

/* The caller's frame has room for the arguments, behind the return address. The compiler keeps an
 * argument there while it calls others. */
INLINE uint64_t argument(const struct call *c, const struct agent_entry_site *site, uint32_t n)
{
	return word(c->sp + site->frame, 8 + 8 * n);
}

NOINLINE void record_gin_route(const struct call *c, const struct agent_entry_site *site)
{
	const struct go_string *path =
		agent_gin_path(c->shared, argument(c, site, 1), argument(c, site, 0));

	if (path)
		record_route(c, path->data, path->length);
}

NOINLINE void record_chi_route(const struct call *c, const struct agent_entry_site *site)
{
	const struct go_slice *patterns = agent_chi_patterns(c->shared, argument(c, site, 1));
	uint8_t *length, *end;

	if (!patterns)
		return;
	length = record_begin(c, RECORD_ROUTE, AGENT_MAX_RECORD + AGENT_MAX_ROUTE);
	if (!length)
		return;
	length = put(length, goid(c, c->g));
	end = agent_chi_copy(c->shared, patterns, length + 2);
	*(volatile uint16_t *)length = two_bytes(end - length - 2);
	record_end(c, end);
}

/* 1xx are not a response's last status, except of one that changes the protocol. */
NOINLINE void record_status(const struct call *c, uint64_t status)
{
	if ((status >= 200 && status <= 999) || status == 101)
		record_rare(c, RECORD_STATUS, 2, goid(c, c->g), status, 0);
}

NOINLINE void record_grpc_status(const struct call *c, uint64_t status)
{
	uint32_t code;

	if (agent_grpc_status(c->shared, status, &code))
		record_rare(c, RECORD_GRPC_STATUS, 2, goid(c, c->g), code, 0);
}

/* A request entry point has set up its frame, or is about to give it up. The frame is
 * as far from the stack's end wherever the stack is moved to. */
NOINLINE void on_call(const struct call *c, const struct agent_entry_site *site)
{
	uint64_t frame = word(c->g, c->config->g_stack_hi) - c->sp - site->frame;

	record(c, site->kind == ENTRY_RETURN ? RECORD_RETURN : RECORD_CALL, 3, goid(c, c->g),
	       site->entry_point, frame);
	if (site->request)
		record_request(c, site->request);
}

NOINLINE void on_entry_point(const struct call *c)
{
	const struct agent_entry_site *site = &c->shared->sites.entry_sites[c->hook - HOOKS];

	if (c->g != word(c->m, c->config->m_curg))
		return;
	if (site->kind == ENTRY_STATUS)
		record_status(c, c->r->argument[1]);
	else if (site->kind == ENTRY_GRPC_STATUS)
		record_grpc_status(c, c->r->argument[2]);
	else if (site->kind == ENTRY_ROUTE)
		record_route(c, c->r->argument[2], c->r->argument[3]);
	else if (site->kind == ENTRY_ROUTE_FIELD)
		record_route_field(c, site);
	else if (site->kind == ENTRY_ROUTE_CHI)
		record_chi_route(c, site);
	else if (site->kind == ENTRY_ROUTE_GIN)
		record_gin_route(c, site);
	else
		on_call(c, site);
}

/*
 * While the agent is at work, the thread looks as if it were in a call of the vDSO: Go's own
 * tracebacks (profiles, SIGQUIT, crashes) then begin at the patched place, with its stack. For
 * agent_status() and those of system calls the stub does it.
 */
NOINLINE void on_hook(struct agent_slot *s, const struct agent_registers *r, uint32_t hook,
		      uint64_t g, uint64_t sp, uint64_t bp)
{
	struct agent_shared *sh = (struct agent_shared *)s->shared;
	const struct agent_config *k = &s->config;
	struct call c = {s, k, sh, r, g, word(g, k->g_m), sp, bp, hook};
	volatile uint64_t *vdso_pc = (volatile uint64_t *)(c.m + k->m_vdso_pc);
	volatile uint64_t *vdso_sp = (volatile uint64_t *)(c.m + k->m_vdso_sp);

	*vdso_pc = sh->sites.addresses[hook];
	*vdso_sp = sp;
	if (hook == HOOK_SYSCALL)
		on_syscall(&c, r->argument[0], r->argument[2]);
	else if (hook >= HOOKS)
		on_entry_point(&c);
	else
		on_other(&c);
	*vdso_sp = 0;
}

/* A jump alone: the rest of this page is for frequent code. */
__attribute__((section(".text.entry"))) void agent_entry(struct agent_slot *s,
							 const struct agent_registers *r,
							 uint32_t hook, uint64_t g, uint64_t sp,
							 uint64_t bp)
{
	on_hook(s, r, hook, g, sp, bp);
}
