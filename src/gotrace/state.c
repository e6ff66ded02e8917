#include "gotrace/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

/* The thread that emits steps when no real one can. */
#define PSEUDO_M 0x7ffffff0u

static void *add_to(struct state *s, struct map *map, uint64_t id, size_t size)
{
	void *item = calloc(1, size);
	uint64_t *place = item ? map_at(map, id) : NULL;

	if (place) {
		*place = (uintptr_t)item;
		return item;
	}
	free(item);
	if (!s->error)
		s->error = &error_no_memory;
	return NULL;
}

static void *find_in(const struct map *map, uint64_t id)
{
	const uint64_t *place = map_find(map, id);

	return place ? (void *)(uintptr_t)*place : NULL;
}

struct state_m *state_find_thread(struct state *s, uint64_t id)
{
	struct state_m *m = find_in(&s->threads, id);

	if (m)
		return m;
	if (s->threads.count >= STATE_MAX_THREADS) {
		s->stats.refused++;
		return NULL;
	}
	m = add_to(s, &s->threads, id, sizeof(*m));
	if (m)
		m->id = id;
	return m;
}

struct state_p *state_processor(struct state *s, uint32_t id)
{
	struct state_p *p = find_in(&s->processors, id);

	if (p)
		return p;
	p = add_to(s, &s->processors, id, sizeof(*p));
	if (p)
		p->id = id;
	return p;
}

struct state_g *state_find_goroutine(const struct state *s, uint64_t id)
{
	return find_in(&s->goroutines, id);
}

void state_emit(struct state *s, const struct state_m *m, enum trace_op op, uint64_t a, uint64_t b,
		uint64_t c, uint64_t d)
{
	struct trace_step *step = &s->step;

	if (s->error)
		return;
	step->ns = s->now > step->ns ? s->now : step->ns + 1;
	step->m = m ? m->id : TRACE_NO_M;
	step->op = op;
	step->arg[0] = a;
	step->arg[1] = b;
	step->arg[2] = c;
	step->arg[3] = d;
	step->g = m && m->g ? m->g->id : 0;
	step->p = m && m->p ? m->p->id : TRACE_NO_P;
	s->stats.steps++;
	s->error = s->sink.step(s->sink.arg, step);
}

void state_emit_status(struct state *s, const struct state_g *g)
{
	s->step.stack = g->parked.stack;
	state_emit(s, g->m, OP_GO_STATUS, g->id, g->m ? g->m->id : TRACE_NO_M, g->status,
		   g->start_pc);
	s->step.stack = 0;
}

static void emit_reconciling(struct state *s, const struct state_m *m, enum trace_op op, uint64_t a,
			     uint64_t b, uint64_t c)
{
	s->stats.reconciled++;
	state_emit(s, m, op, a, b, c, 0);
}

static bool hosts(const struct state_m *m, bool or_none)
{
	if (!m || !m->p || m->p->status != PROC_RUNNING)
		return false;
	return m->g ? m->g->status == TRACE_RUNNING : or_none;
}

struct state_m *state_host(struct state *s, struct state_m *m, bool or_none)
{
	const struct state_p *lowest = NULL;

	if (hosts(m, or_none))
		return m;
	for (size_t i = 0; i < s->processors.capacity; i++) {
		struct map_slot *slot = &s->processors.slots[i];
		const struct state_p *p = (const struct state_p *)(uintptr_t)slot->value;

		if (slot->key != MAP_NO_KEY && hosts(p->m, or_none) &&
		    (!lowest || p->id < lowest->id))
			lowest = p;
	}
	return lowest ? lowest->m : NULL;
}

/* The lowest idle P; a new one when there is none. */
static uint32_t free_p(struct state *s)
{
	uint32_t next = 0, lowest = UINT32_MAX;

	for (size_t i = 0; i < s->processors.capacity; i++) {
		struct map_slot *slot = &s->processors.slots[i];
		struct state_p *p = (struct state_p *)(uintptr_t)slot->value;

		if (slot->key == MAP_NO_KEY)
			continue;
		if (p->known && !p->m && p->id < lowest)
			lowest = p->id;
		if (p->id >= next)
			next = p->id + 1;
	}
	return lowest < UINT32_MAX ? lowest : next;
}

struct state_m *state_host_any(struct state *s, struct state_m *m)
{
	struct state_m *host = state_host(s, m, true);

	if (host)
		return host;
	host = state_thread(s, PSEUDO_M);
	if (host) {
		state_drop_g(s, host);
		state_take_p(s, host, free_p(s));
	}
	return host;
}

void state_return_host(struct state *s, struct state_m *m)
{
	if (m->id == PSEUDO_M && !m->g)
		state_drop_p(s, m);
}

struct state_m *state_begin_helper(struct state *s)
{
	struct state_m *host = state_host_any(s, NULL);
	struct state_g *helper;

	if (!host || host->g || state_is_full(s))
		return NULL;
	state_emit(s, host, OP_GO_CREATE, TRACE_HELPER_GOID + s->helpers, 0, 0, 0);
	helper = state_add_goroutine(s, TRACE_HELPER_GOID + s->helpers++, TRACE_RUNNABLE, NULL);
	if (!helper)
		return NULL;
	state_start(s, host, helper);
	return host;
}

void state_end_helper(struct state *s, struct state_m *host)
{
	state_emit(s, host, OP_GO_DESTROY, 0, 0, 0, 0);
	state_remove_goroutine(s, host->g);
	state_return_host(s, host);
}

struct state_g *state_add_goroutine(struct state *s, uint64_t id, enum trace_status status,
				    struct state_m *m)
{
	struct state_g *g = add_to(s, &s->goroutines, id, sizeof(*g));

	if (!g)
		return NULL;
	g->id = id;
	g->known_ns = s->now;
	g->status = status;
	g->m = m;
	if (m)
		m->g = g;
	return g;
}

void state_remove_goroutine(struct state *s, struct state_g *g)
{
	if (g->m)
		g->m->g = NULL;
	if (s->first_generation && !map_at(&s->ended, g->id) && !s->error)
		s->error = &error_no_memory;
	s->regions -= g->region_count;
	map_remove(&s->goroutines, g->id);
	s->recent_goroutines[g->id % RECENT_GOROUTINES] = NULL;
	free(g->regions);
	free(g);
}

struct state_g *state_introduce(struct state *s, struct state_m *m, uint64_t id,
				enum trace_status status)
{
	struct state_m *host;

	if (state_is_full(s))
		return NULL;
	if (s->first_generation && !map_find(&s->ended, id)) {
		state_emit(s, m, OP_GO_STATUS, id, TRACE_NO_M, status, 0);
		return state_add_goroutine(s, id, status, NULL);
	}
	host = state_host_any(s, m);
	if (!host)
		return NULL;
	emit_reconciling(s, host, OP_GO_CREATE, id, 0, 0);
	return state_add_goroutine(s, id, TRACE_RUNNABLE, NULL);
}

static void unbind_g(struct state_m *m, enum trace_status status)
{
	m->g->status = status;
	m->g->parked.stack = 0;
	m->g->m = NULL;
	m->g = NULL;
}

static void unbind_p(struct state_p *p)
{
	p->m->p = NULL;
	p->m = NULL;
	p->status = PROC_IDLE;
}

void state_drop_g(struct state *s, struct state_m *m)
{
	if (!m->g)
		return;
	if (m->g->status == TRACE_RUNNING) {
		state_close_ranges(s, m->g);
		emit_reconciling(s, m, OP_GO_STOP, TRACE_TEXT_LOST, 0, 0);
	} else {
		state_drop_p(s, m);
		state_emit(s, m, OP_GO_SYSCALL_END_BLOCKED, 0, 0, 0, 0);
	}
	unbind_g(m, TRACE_RUNNABLE);
}

void state_drop_p(struct state *s, struct state_m *m)
{
	if (!m->p)
		return;
	if (m->g && m->g->status == TRACE_RUNNING)
		state_drop_g(s, m);
	if (m->p->sweeps)
		state_emit(s, m, OP_SWEEP_END, 0, 0, 0, 0);
	m->p->sweeps = false;
	state_emit(s, m, OP_PROC_STOP, 0, 0, 0, 0);
	unbind_p(m->p);
}

void state_steal_p(struct state *s, struct state_m *m, struct state_p *p)
{
	state_emit(s, m, OP_PROC_STEAL, p->id, ++p->seq, p->m->id, 0);
	unbind_p(p);
}

/* A P that is unknown so far is idle: any generation may say so. */
static void know_p(struct state *s, struct state_m *m, struct state_p *p)
{
	if (p->known)
		return;
	state_emit(s, m, OP_PROC_STATUS, p->id, PROC_IDLE, 0, 0);
	p->known = true;
	p->status = PROC_IDLE;
}

void state_take_p(struct state *s, struct state_m *m, uint32_t id)
{
	struct state_p *p;

	if (m->p && m->p->id == id)
		return;
	p = state_processor(s, id);
	if (!p)
		return;
	know_p(s, m, p);
	state_drop_p(s, m);
	if (p->m && p->status == PROC_IN_SYSCALL) {
		state_steal_p(s, m, p);
	} else if (p->m) {
		s->stats.reconciled++;
		state_drop_p(s, p->m);
	}
	state_emit(s, m, OP_PROC_START, id, ++p->seq, 0, 0);
	p->status = PROC_RUNNING;
	p->m = m;
	m->p = p;
}

struct state_g *state_loosen(struct state *s, struct state_m *m, uint64_t goid,
			     enum trace_status want)
{
	struct state_g *g = state_goroutine(s, goid);

	if (!g)
		g = state_introduce(s, m, goid, want);
	if (!g)
		return NULL;
	if (g->m && want == TRACE_WAITING && g->status == TRACE_RUNNING) {
		state_close_ranges(s, g);
		emit_reconciling(s, g->m, OP_GO_BLOCK, TRACE_TEXT_LOST, 0, 0);
		unbind_g(g->m, TRACE_WAITING);
	} else if (g->m) {
		state_drop_g(s, g->m);
	}
	if (g->status == TRACE_WAITING && want == TRACE_RUNNABLE) {
		emit_reconciling(s, m, OP_GO_UNBLOCK, goid, ++g->seq, 0);
		g->parked.stack = 0;
		g->status = TRACE_RUNNABLE;
	}
	return g;
}

/* Reclaims a P whose thread was in a system call with an unknown goroutine. */
static void reclaim(struct state *s, struct state_m *m)
{
	uint32_t p = m->p->id;

	if (m->p->status == PROC_RUNNING)
		return;
	state_drop_p(s, m);
	state_take_p(s, m, p);
}

void state_start(struct state *s, struct state_m *m, struct state_g *g)
{
	reclaim(s, m);
	state_emit(s, m, OP_GO_START, g->id, ++g->seq, 0, 0);
	g->status = TRACE_RUNNING;
	g->m = m;
	m->g = g;
}

/* The thread has lost its P meanwhile, or has got one again. */
static void leave_syscall_blocked(struct state *s, struct state_m *m, struct state_g *g)
{
	state_emit(s, m, OP_GO_SYSCALL_END_BLOCKED, 0, 0, 0, 0);
	unbind_g(m, TRACE_RUNNABLE);
	state_start(s, m, g);
}

static bool leave_syscall(struct state *s, struct state_m *m, uint32_t p, struct state_g *g)
{
	if (m->p && (p == TRACE_NO_P || m->p->id == p) && m->p->status == PROC_IN_SYSCALL) {
		state_emit(s, m, OP_GO_SYSCALL_END, 0, 0, 0, 0);
		m->p->status = PROC_RUNNING;
		g->status = TRACE_RUNNING;
		g->parked.stack = 0;
		return true;
	}
	if (p != TRACE_NO_P)
		state_take_p(s, m, p);
	if (!m->p)
		return false;
	leave_syscall_blocked(s, m, g);
	return true;
}

bool state_make_run(struct state *s, struct state_m *m, uint32_t p, uint64_t goid)
{
	struct state_g *g = m->g;

	if (g && g->id == goid && g->status == TRACE_IN_SYSCALL)
		return leave_syscall(s, m, p, g);
	if (g && g->id == goid && (p == TRACE_NO_P || m->p->id == p))
		return true;
	if (p == TRACE_NO_P && !m->p)
		return false;
	if (g && g->id != goid)
		state_drop_g(s, m);
	if (p != TRACE_NO_P)
		state_take_p(s, m, p);
	g = m->p ? state_loosen(s, m, goid, TRACE_RUNNABLE) : NULL;
	/* state_loosen() may drop the thread's P. */
	if (!g || !m->p || m->g)
		return false;
	state_start(s, m, g);
	return true;
}

void state_end_ranges(struct state *s, struct state_g *g)
{
	if (g->in_assist)
		state_emit(s, g->m, OP_ASSIST_END, 0, 0, 0, 0);
	if (g->stops_world)
		state_emit(s, g->m, OP_STW_END, 0, 0, 0, 0);
	g->in_assist = g->stops_world = false;
}

void state_end_regions(struct state *s, struct state_g *g, size_t i)
{
	while (g->region_count > i) {
		const struct region *open = &g->regions[--g->region_count];

		s->regions--;
		state_emit(s, g->m, OP_REGION_END, open->task, open->type, 0, 0);
	}
}

bool state_open_region(struct state *s, struct state_g *g, const struct region *region)
{
	if (g->region_count >= STATE_MAX_REGIONS_OF_ONE || s->regions >= STATE_MAX_REGIONS) {
		s->stats.refused++;
		return false;
	}
	if (!array_reserve(&g->regions, &g->region_capacity, g->region_count + 1)) {
		s->error = s->error ?: &error_no_memory;
		return false;
	}
	g->regions[g->region_count++] = *region;
	s->regions++;
	return true;
}

void state_kill(struct state *s, struct state_m *m, struct state_g *g)
{
	struct state_m *host = g->m;

	s->stats.reconciled++;
	if (host && g->status == TRACE_IN_SYSCALL) {
		state_drop_p(s, host);
		state_emit(s, host, OP_GO_DESTROY_SYSCALL, 0, 0, 0, 0);
	} else {
		if (!host) {
			host = state_host_any(s, m);
			if (!host)
				return;
			state_drop_g(s, host);
			state_loosen(s, m, g->id, TRACE_RUNNABLE);
			state_start(s, host, g);
		}
		state_close_ranges(s, g);
		state_end_regions(s, g, 0);
		state_emit(s, host, OP_GO_DESTROY, 0, 0, 0, 0);
	}
	state_remove_goroutine(s, g);
}

uint64_t *state_ids(struct state *s, const struct map *map)
{
	uint64_t *ids = map_sorted_keys(map);

	if (!ids && map->count && !s->error)
		s->error = &error_no_memory;
	return ids;
}

static void emit_processors(struct state *s)
{
	_cleanup_free_ uint64_t *ids = state_ids(s, &s->processors);

	for (size_t i = 0; ids && i < s->processors.count; i++) {
		struct state_p *p = find_in(&s->processors, ids[i]);

		if (!p->known)
			continue;
		p->seq = 0;
		state_emit(s, p->m, OP_PROC_STATUS, p->id, p->status, 0, 0);
		if (p->sweeps)
			state_emit(s, p->m, OP_SWEEP_ACTIVE, p->id, 0, 0, 0);
	}
}

static void emit_goroutines(struct state *s)
{
	_cleanup_free_ uint64_t *ids = state_ids(s, &s->goroutines);

	for (size_t i = 0; ids && i < s->goroutines.count; i++) {
		struct state_g *g = state_find_goroutine(s, ids[i]);

		g->seq = 0;
		state_emit_status(s, g);
		if (g->in_assist)
			state_emit(s, g->m, OP_ASSIST_ACTIVE, g->id, 0, 0, 0);
	}
}

/* Forgets threads that have nothing: a program may start any number of them. */
void state_forget_threads(struct state *s)
{
	memset(s->recent_threads, 0, sizeof(s->recent_threads));
	for (size_t i = 0; i < s->threads.capacity;) {
		struct map_slot *slot = &s->threads.slots[i];
		struct state_m *m = (struct state_m *)(uintptr_t)slot->value;

		if (slot->key == MAP_NO_KEY || m->g || m->p) {
			i++;
			continue;
		}
		map_remove(&s->threads, m->id);
		free(m);
	}
}

void emit_all_status(struct state *s)
{
	state_forget_threads(s);
	emit_processors(s);
	emit_goroutines(s);
	s->gc_pending = s->gc_runs;
}

static void release_items(struct map *map)
{
	for (size_t i = 0; i < map->capacity; i++)
		if (map->slots[i].key != MAP_NO_KEY)
			free((void *)(uintptr_t)map->slots[i].value);
	map_release(map);
}

void state_release(struct state *s)
{
	for (size_t i = 0; i < s->goroutines.capacity; i++)
		if (s->goroutines.slots[i].key != MAP_NO_KEY)
			free(((struct state_g *)(uintptr_t)s->goroutines.slots[i].value)->regions);
	release_items(&s->threads);
	release_items(&s->goroutines);
	release_items(&s->processors);
	map_release(&s->ended);
	map_release(&s->tasks);
	free(s->pending_labels);
}
