#include "gotrace/model.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "gotrace/calls.h"
#include "gotrace/labelled.h"
#include "gotrace/ranges.h"
#include "gotrace/state.h"

/* No program has so many Ps; an event with a higher number is invalid. */
#define MAX_P (1u << 16)

struct trace_model {
	struct state state;
};

struct error *trace_model_create(const struct trace_sink *sink, struct trace_model **ret)
{
	struct trace_model *model = calloc(1, sizeof(*model));

	if (!model)
		return &error_no_memory;
	model->state.sink = *sink;
	model->state.first_generation = true;
	*ret = model;
	return NULL;
}

void trace_model_destroy(struct trace_model *model)
{
	if (model)
		state_release(&model->state);
	free(model);
}

struct trace_model_stats trace_model_stats(const struct trace_model *model)
{
	return model->state.stats;
}

static bool initial_goroutine(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g;
	bool bound = ev->arg == TRACE_RUNNING || ev->arg == TRACE_IN_SYSCALL;

	if (!s->first_generation || state_goroutine(s, ev->g) || map_find(&s->ended, ev->g) ||
	    state_is_full(s))
		return false;
	if (ev->arg < TRACE_RUNNABLE || ev->arg > TRACE_WAITING || (bound && (!m || m->g)))
		return false;
	/* A running goroutine has a P; one in a system call that lost its P has none. */
	if (ev->arg == TRACE_RUNNING && !m->p)
		return false;
	g = state_add_goroutine(s, ev->g, ev->arg, NULL);
	if (!g)
		return false;
	g->start_pc = ev->arg2;
	g->parked.stack = ev->stack;
	g->m = bound ? m : NULL;
	state_emit_status(s, g);
	if (bound)
		m->g = g;
	return true;
}

static bool initial_processor(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_p *p;

	if (!m || ev->p == TRACE_NO_P || m->p)
		return false;
	p = state_processor(s, ev->p);
	if (!p || p->known)
		return false;
	p->status = ev->arg == PROC_IN_SYSCALL ? PROC_IN_SYSCALL : PROC_RUNNING;
	p->known = true;
	state_emit(s, m, OP_PROC_STATUS, ev->p, p->status, 0, 0);
	p->m = m;
	m->p = p;
	return true;
}

static bool create(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g;
	struct state_m *host;

	if (state_goroutine(s, ev->g) || state_is_full(s))
		return false;
	if (m && ev->p != TRACE_NO_P && (!m->p || m->p->id != ev->p)) {
		state_drop_g(s, m);
		state_take_p(s, m, ev->p);
	}
	host = state_host_any(s, m);
	if (!host)
		return false;
	state_emit(s, host, OP_GO_CREATE, ev->g, ev->arg, ev->stack, 0);
	g = state_add_goroutine(s, ev->g, TRACE_RUNNABLE, NULL);
	if (g)
		g->start_pc = ev->arg;
	return g;
}

static bool begin_to_run(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g = state_goroutine(s, ev->g);
	bool free = m->p && m->p->id == ev->p && !m->g;

	if (free && g && g->status == TRACE_RUNNABLE) {
		state_start(s, m, g);
		return true;
	}
	if (state_runs(m, TRACE_NO_P, ev->g))
		state_drop_g(s, m);
	return state_run(s, m, ev->p, ev->g);
}

static void unbind(struct state_m *m, enum trace_status status)
{
	m->g->status = status;
	m->g->m = NULL;
	m->g = NULL;
}

static bool leave(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g = m->g;

	/* It leaves a system call after its P was lost, and there is no other P. */
	if (ev->kind == TRACE_YIELD && ev->p == TRACE_NO_P && g && g->id == ev->g &&
	    g->status == TRACE_IN_SYSCALL) {
		state_drop_g(s, m);
		return true;
	}
	if (!state_run(s, m, ev->p, ev->g))
		return false;
	state_close_ranges(s, m->g);
	if (ev->kind == TRACE_END) {
		state_end_regions(s, m->g, 0);
		state_emit(s, m, OP_GO_DESTROY, 0, 0, 0, 0);
		state_remove_goroutine(s, m->g);
		return true;
	}
	state_emit(s, m, ev->kind == TRACE_BLOCK ? OP_GO_BLOCK : OP_GO_STOP, ev->text, ev->stack, 0,
		   0);
	unbind(m, ev->kind == TRACE_BLOCK ? TRACE_WAITING : TRACE_RUNNABLE);
	return true;
}

static bool unblock(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g = state_goroutine(s, ev->g);

	if (g && !g->m && g->status == TRACE_RUNNABLE)
		return false;
	if (!g || g->m)
		g = state_loosen(s, m, ev->g, TRACE_WAITING);
	if (!g || g->status != TRACE_WAITING)
		return g;
	state_emit(s, m, OP_GO_UNBLOCK, g->id, ++g->seq, ev->stack, 0);
	g->status = TRACE_RUNNABLE;
	g->parked.stack = 0;
	return true;
}

static bool coro_switch(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct trace_event block = *ev, next = *ev;
	bool left;

	block.kind = TRACE_BLOCK;
	next.kind = TRACE_UNBLOCK;
	next.g = ev->arg;
	if (!ev->arg || ev->arg == MAP_NO_KEY || ev->arg == ev->g)
		return false;
	left = leave(s, m, &block);
	unblock(s, m, &next);
	return state_run(s, m, ev->p, ev->arg) || left;
}

static bool enter_syscall(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (m->g && m->g->id == ev->g && m->g->status == TRACE_IN_SYSCALL)
		return false;
	if (!state_run(s, m, ev->p, ev->g))
		return false;
	state_close_ranges(s, m->g);
	state_emit(s, m, OP_GO_SYSCALL_BEGIN, ++m->p->seq, ev->stack, 0, 0);
	m->g->status = TRACE_IN_SYSCALL;
	m->p->status = PROC_IN_SYSCALL;
	return true;
}

/* From Go 1.26 on the event comes before the goroutine has a P: with P_START it runs. */
static bool exit_syscall(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	bool runs = state_run(s, m, ev->p, ev->g);

	m->wants_p = !runs && ev->p == TRACE_NO_P && m->g && m->g->id == ev->g;
	return runs || m->wants_p;
}

static bool exit_without_processor(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (m->g && m->g->id == ev->g && m->g->status == TRACE_IN_SYSCALL)
		state_drop_g(s, m);
	else
		state_loosen(s, m, ev->g, TRACE_RUNNABLE);
	return true;
}

static bool thread_enter(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g;

	state_drop_g(s, m);
	g = state_goroutine(s, ev->g);
	if (g)
		state_kill(s, m, g);
	state_drop_g(s, m);
	state_drop_p(s, m);
	if (state_is_full(s))
		return false;
	state_emit(s, m, OP_GO_CREATE_SYSCALL, ev->g, 0, 0, 0);
	return state_add_goroutine(s, ev->g, TRACE_IN_SYSCALL, m);
}

static bool thread_leave(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g = state_goroutine(s, ev->g);

	if (!g)
		return false;
	if (m->g != g || g->status != TRACE_IN_SYSCALL) {
		state_kill(s, m, g);
		return true;
	}
	state_drop_p(s, m);
	state_emit(s, m, OP_GO_DESTROY_SYSCALL, 0, 0, 0, 0);
	state_remove_goroutine(s, g);
	return true;
}

static bool processor_start(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (ev->p == TRACE_NO_P)
		return false;
	if (m->p && m->p->id == ev->p)
		return true;
	if (m->g && m->g->status == TRACE_RUNNING)
		state_drop_g(s, m);
	state_take_p(s, m, ev->p);
	if (m->wants_p && m->g && m->p)
		state_run(s, m, TRACE_NO_P, m->g->id);
	m->wants_p = false;
	return true;
}

/* A goroutine that runs while its P is given up is about to enter a blocking system call (Go 1.26:
 * entersyscallblock). */
static bool processor_stop(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (!m->p || (ev->p != TRACE_NO_P && m->p->id != ev->p))
		return false;
	if (m->g && m->g->status == TRACE_RUNNING) {
		state_close_ranges(s, m->g);
		state_emit(s, m, OP_GO_SYSCALL_BEGIN, ++m->p->seq, ev->stack, 0, 0);
		m->g->status = TRACE_IN_SYSCALL;
		m->p->status = PROC_IN_SYSCALL;
	}
	state_drop_p(s, m);
	return true;
}

static bool processor_steal(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_p *p = ev->p == TRACE_NO_P ? NULL : state_processor(s, ev->p);

	if (!p || !p->m || p->m == m || p->status != PROC_IN_SYSCALL)
		return false;
	/* A step needs a thread: the one that loses the P is used. */
	state_steal_p(s, m ?: p->m, p);
	return true;
}

/* A thread that is about to take or to leave a goroutine may be on another stack than the last
 * event says. Then the sample is of no goroutine. */
static bool sample_cpu(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	const struct state_g *g = ev->arg2 ? NULL : m->g;

	if (g && ev->arg && g->start_pc && ev->arg != g->start_pc)
		g = NULL;
	state_emit(s, m, OP_CPU_SAMPLE, g ? g->id : 0, ev->stack, 0, 0);
	return true;
}

static bool lose(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	s->stats.lost += ev->arg;
	return true;
}

/* The handler of each kind; false: it could not handle the event. Some kinds need a thread. */
static const struct {
	bool (*take)(struct state *s, struct state_m *m, const struct trace_event *ev);
	bool on_thread;
} transitions[TRACE_KINDS] = {
	[TRACE_G_STATUS] = {initial_goroutine, false},
	[TRACE_PARKED] = {labelled_park, false},
	[TRACE_P_STATUS] = {initial_processor, false},
	[TRACE_CREATE] = {create, false},
	[TRACE_START] = {begin_to_run, true},
	[TRACE_BLOCK] = {leave, true},
	[TRACE_YIELD] = {leave, true},
	[TRACE_END] = {leave, true},
	[TRACE_UNBLOCK] = {unblock, false},
	[TRACE_CORO_SWITCH] = {coro_switch, true},
	[TRACE_SYSCALL] = {enter_syscall, true},
	[TRACE_SYSCALL_EXIT] = {exit_syscall, true},
	[TRACE_SYSCALL_EXIT_NO_P] = {exit_without_processor, true},
	[TRACE_THREAD_ENTER] = {thread_enter, true},
	[TRACE_THREAD_LEAVE] = {thread_leave, true},
	[TRACE_P_START] = {processor_start, true},
	[TRACE_P_STOP] = {processor_stop, true},
	[TRACE_P_STEAL] = {processor_steal, false},
	[TRACE_GC_BEGIN] = {ranges_runtime, false},
	[TRACE_GC_END] = {ranges_runtime, false},
	[TRACE_STW_BEGIN] = {ranges_runtime, false},
	[TRACE_STW_END] = {ranges_runtime, false},
	[TRACE_ASSIST_BEGIN] = {ranges_runtime, false},
	[TRACE_ASSIST_END] = {ranges_runtime, false},
	[TRACE_SWEEP_BEGIN] = {ranges_runtime, false},
	[TRACE_SWEEP_END] = {ranges_runtime, false},
	[TRACE_HEAP_ALLOC] = {ranges_runtime, false},
	[TRACE_HEAP_GOAL] = {ranges_runtime, false},
	[TRACE_GOMAXPROCS] = {ranges_runtime, false},
	[TRACE_COUNTER] = {ranges_runtime, false},
	[TRACE_LABEL] = {ranges_runtime, false},
	[TRACE_TASK_BEGIN] = {ranges_user, false},
	[TRACE_TASK_END] = {ranges_user, false},
	[TRACE_REGION_BEGIN] = {ranges_user, false},
	[TRACE_REGION_END] = {ranges_user, false},
	[TRACE_LOG] = {ranges_user, false},
	[TRACE_LABELS] = {labelled_set, false},
	[TRACE_CALL] = {calls_take, false},
	[TRACE_RETURN] = {calls_take, false},
	[TRACE_CPU_SAMPLE] = {sample_cpu, true},
	[TRACE_LOST] = {lose, false},
};

static bool apply(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	return (m || !transitions[ev->kind].on_thread) && transitions[ev->kind].take(s, m, ev);
}

/* Whether goroutine 0 is invalid for this kind. */
static bool is_about_goroutine(enum trace_kind kind)
{
	return kind == TRACE_G_STATUS || kind == TRACE_PARKED || kind == TRACE_LABELS ||
	       (kind >= TRACE_CREATE && kind <= TRACE_THREAD_LEAVE);
}

static bool is_sane(const struct trace_event *ev)
{
	return ev->kind < TRACE_KINDS && ev->g != MAP_NO_KEY &&
	       (ev->p == TRACE_NO_P || ev->p < MAX_P) && (ev->g || !is_about_goroutine(ev->kind));
}

static bool is_of_beginning(enum trace_kind kind)
{
	return kind == TRACE_G_STATUS || kind == TRACE_P_STATUS || kind == TRACE_PARKED ||
	       kind == TRACE_LABELS;
}

/* The states at the beginning are emitted before the first event. */
static void begin(struct state *s)
{
	s->has_begun = true;
	labelled_emit_all(s);
}

/* Called rarely, because it takes long when all threads have something. */
static void make_room_for_threads(struct state *s)
{
	if (s->stats.events - s->forgot_threads < STATE_MAX_THREADS)
		return;
	s->forgot_threads = s->stats.events;
	state_forget_threads(s);
}

struct error *trace_model_add(struct trace_model *model, const struct trace_event *ev)
{
	struct state *s = &model->state;
	struct state_m *m = NULL;

	s->stats.events++;
	if (!is_sane(ev)) {
		s->stats.dropped++;
		return s->error;
	}
	s->now = ev->ns;
	if (!s->has_begun && !is_of_beginning(ev->kind))
		begin(s);
	if (ev->m != TRACE_NO_M) {
		m = state_thread(s, ev->m);
		if (!m) {
			make_room_for_threads(s);
			s->stats.dropped++;
			return s->error;
		}
	}
	if (s->gc_pending || s->counters_pending)
		ranges_emit_pending(s, m);
	if (!apply(s, m, ev))
		s->stats.dropped++;
	if (s->pending_labels_count)
		emit_pending_labels(s, m);
	return s->error;
}

struct error *trace_model_complete(struct trace_model *model)
{
	ranges_emit_new_counters(&model->state);
	return model->state.error;
}

struct error *trace_model_bury(struct trace_model *model, const struct map *living,
			       uint64_t before_ns)
{
	struct state *s = &model->state;
	_cleanup_free_ uint64_t *ids = state_ids(s, &s->goroutines);
	size_t count = s->goroutines.count;

	for (size_t i = 0; i < count && !s->error; i++) {
		struct state_g *g = state_find_goroutine(s, ids[i]);

		if (g && g->known_ns < before_ns && !map_find(living, g->id))
			state_kill(s, NULL, g);
	}
	return s->error;
}

void trace_model_mark_texts(const struct trace_model *model, struct texts *texts)
{
	const struct map *all = &model->state.goroutines;

	for (size_t i = 0; i < all->capacity; i++) {
		const struct state_g *g = (const struct state_g *)(uintptr_t)all->slots[i].value;

		if (all->slots[i].key == MAP_NO_KEY)
			continue;
		texts_mark(texts, g->labels);
		if (g->parked.stack)
			texts_mark(texts, g->parked.reason);
		for (size_t k = 0; k < g->region_count; k++)
			texts_mark(texts, g->regions[k].type);
	}
}

/* While the world stops, events of threads that have not noticed it yet are put off. After this
 * many, the stop is assumed to be over. */
#define MOST_PUT_OFF (1u << 20)

/* Whether a stop of the world delays the end of the generation. */
static bool world_stops(struct state *s)
{
	_cleanup_free_ uint64_t *ids = state_ids(s, &s->processors);
	bool end = s->put_off >= MOST_PUT_OFF;

	for (size_t i = 0; ids && i < s->processors.count; i++) {
		const struct state_p *p =
			(const struct state_p *)(uintptr_t)*map_find(&s->processors, ids[i]);

		if (!p->m || !p->m->g || !p->m->g->stops_world)
			continue;
		s->put_off++;
		if (!end)
			return true;
		state_end_ranges(s, p->m->g);
	}
	s->put_off = 0;
	return false;
}

struct error *trace_model_new_generation(struct trace_model *model, uint64_t ns)
{
	struct state *s = &model->state;

	if (s->error || world_stops(s))
		return s->error;
	if (!s->has_begun)
		begin(s);
	s->now = ns;
	ranges_emit_new_counters(s);
	s->first_generation = false;
	map_release(&s->ended);
	s->error = s->sink.generation(s->sink.arg);
	emit_all_status(s);
	ranges_new_generation(s);
	if (s->sink.separate)
		labelled_repeat(s);
	labelled_emit_all(s);
	return s->error;
}
