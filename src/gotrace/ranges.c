#include "gotrace/ranges.h"

/* The most ids of tasks that are remembered, so that no task begins twice. Real programs have
 * fewer; with invalid records, forgetting is harmless. */
#define MAX_TASKS (1u << 14)

static void emit_gc(struct state *s, struct state_m *m)
{
	struct state_m *host = s->gc_pending ? state_host(s, m, false) : NULL;

	if (!host)
		return;
	state_emit(s, host, OP_GC_ACTIVE, ++s->gc_seq, 0, 0, 0);
	s->gc_pending = false;
}

/* Whether the event's goroutine runs on its thread, which the next step requires. */
static bool runs(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (!m)
		return false;
	if (ev->g)
		return state_run(s, m, ev->p, ev->g);
	return m->p && m->g && m->g->status == TRACE_RUNNING;
}

static bool gc_begin(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (s->gc_runs || !runs(s, m, ev))
		return false;
	state_emit(s, m, OP_GC_BEGIN, ++s->gc_seq, ev->stack, 0, 0);
	s->gc_runs = true;
	return true;
}

static bool gc_end(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (!s->gc_runs || !runs(s, m, ev))
		return false;
	emit_gc(s, m);
	state_emit(s, m, OP_GC_END, ++s->gc_seq, 0, 0, 0);
	s->gc_runs = s->gc_pending = false;
	return true;
}

static bool stw_begin(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (!runs(s, m, ev) || m->g->stops_world)
		return false;
	state_emit(s, m, OP_STW_BEGIN, ev->text, ev->stack, 0, 0);
	m->g->stops_world = true;
	return true;
}

static bool stw_end(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (!runs(s, m, ev) || !m->g->stops_world)
		return false;
	state_emit(s, m, OP_STW_END, 0, 0, 0, 0);
	m->g->stops_world = false;
	return true;
}

static bool assist(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	bool begin = ev->kind == TRACE_ASSIST_BEGIN;

	if (!runs(s, m, ev) || m->g->in_assist == begin)
		return false;
	state_emit(s, m, begin ? OP_ASSIST_BEGIN : OP_ASSIST_END, begin ? ev->stack : 0, 0, 0, 0);
	m->g->in_assist = begin;
	return true;
}

static bool sweep(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	bool begin = ev->kind == TRACE_SWEEP_BEGIN;

	if (m && ev->p != TRACE_NO_P && !m->g)
		state_take_p(s, m, ev->p);
	if (!m || !m->p || m->p->sweeps == begin)
		return false;
	if (begin)
		state_emit(s, m, OP_SWEEP_BEGIN, ev->stack, 0, 0, 0);
	else
		state_emit(s, m, OP_SWEEP_END, ev->arg, ev->arg2, 0, 0);
	m->p->sweeps = begin;
	return true;
}

/* Any thread in the required state will do. */
static void emit_counter(struct state *s, struct state_m *m, struct state_counter *counter,
			 enum trace_op op)
{
	if (counter->pending)
		m = state_host(s, m, op != OP_PROCS_CHANGE);
	if (!counter->pending || !m)
		return;
	state_emit(s, m, op, counter->value, 0, 0, 0);
	counter->pending = false;
}

static bool kernel_counters_pend(const struct state *s)
{
	for (size_t i = 0; i < TRACE_COUNTERS; i++)
		if (s->counters[i].pending)
			return true;
	return false;
}

static void emit_kernel_counters_on(struct state *s, const struct state_m *host)
{
	for (size_t i = 0; i < TRACE_COUNTERS; i++) {
		struct state_counter *counter = &s->counters[i];

		if (counter->pending)
			state_emit(s, host, OP_COUNTER, i, counter->value, 0, 0);
		counter->pending = counter->is_new = false;
	}
}

/* The kernel's counters are logs, and need a goroutine. */
static void emit_kernel_counters(struct state *s, struct state_m *m)
{
	const struct state_m *host = kernel_counters_pend(s) ? state_host(s, m, false) : NULL;

	if (host || !s->sink.logs_run)
		emit_kernel_counters_on(s, host);
}

static bool counters_pend(const struct state *s)
{
	return s->gomaxprocs.pending || s->heap_alloc.pending || s->heap_goal.pending ||
	       kernel_counters_pend(s);
}

static void emit_counters(struct state *s, struct state_m *m)
{
	emit_counter(s, m, &s->gomaxprocs, OP_PROCS_CHANGE);
	emit_counter(s, m, &s->heap_alloc, OP_HEAP_ALLOC);
	emit_counter(s, m, &s->heap_goal, OP_HEAP_GOAL);
	emit_kernel_counters(s, m);
	s->counters_pending = counters_pend(s);
}

void ranges_emit_pending(struct state *s, struct state_m *m)
{
	emit_gc(s, m);
	if (s->counters_pending)
		emit_counters(s, m);
}

static void emit_kernel_counters_now(struct state *s)
{
	uint64_t now = s->now;
	struct state_m *host;

	emit_kernel_counters(s, NULL);
	if (!kernel_counters_pend(s))
		return;
	s->now = s->kernel_ns;
	host = state_begin_helper(s);
	if (host) {
		emit_kernel_counters_on(s, host);
		state_end_helper(s, host);
	}
	s->now = now;
	s->counters_pending = counters_pend(s);
}

void ranges_emit_new_counters(struct state *s)
{
	for (size_t i = 0; i < TRACE_COUNTERS; i++)
		if (s->counters[i].is_new) {
			emit_kernel_counters_now(s);
			return;
		}
}

void ranges_new_generation(struct state *s)
{
	s->gomaxprocs.pending = s->gomaxprocs.known;
	s->heap_alloc.pending = s->heap_alloc.known;
	s->heap_goal.pending = s->heap_goal.known;
	for (size_t i = 0; i < TRACE_COUNTERS; i++)
		s->counters[i].pending = s->counters[i].known;
	s->counters_pending = counters_pend(s);
}

static bool counter(struct state *s, struct state_m *m, struct state_counter *counter,
		    uint64_t value)
{
	*counter = (struct state_counter){value, true, true, false};
	emit_counters(s, m);
	return true;
}

/* The reading before is not lost to this one: a difference needs both. */
static bool kernel_counter(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (ev->arg >= TRACE_COUNTERS)
		return false;
	if (s->counters[ev->arg].pending)
		emit_kernel_counters_now(s);
	s->kernel_ns = ev->ns;
	s->counters[ev->arg] = (struct state_counter){ev->arg2, true, true, .is_new = true};
	emit_counters(s, m);
	return true;
}

static bool label(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (!ev->text || !runs(s, m, ev))
		return false;
	state_emit(s, m, OP_GO_LABEL, ev->text, 0, 0, 0);
	return true;
}

bool ranges_runtime(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	switch (ev->kind) {
	case TRACE_GC_BEGIN:
		return gc_begin(s, m, ev);
	case TRACE_GC_END:
		return gc_end(s, m, ev);
	case TRACE_STW_BEGIN:
		return stw_begin(s, m, ev);
	case TRACE_STW_END:
		return stw_end(s, m, ev);
	case TRACE_ASSIST_BEGIN:
	case TRACE_ASSIST_END:
		return assist(s, m, ev);
	case TRACE_SWEEP_BEGIN:
	case TRACE_SWEEP_END:
		return sweep(s, m, ev);
	case TRACE_HEAP_ALLOC:
		return counter(s, m, &s->heap_alloc, ev->arg);
	case TRACE_HEAP_GOAL:
		return counter(s, m, &s->heap_goal, ev->arg);
	case TRACE_GOMAXPROCS:
		return counter(s, m, &s->gomaxprocs, ev->arg);
	case TRACE_COUNTER:
		return kernel_counter(s, m, ev);
	default:
		return label(s, m, ev);
	}
}

static bool task_begin(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (!ev->arg || ev->arg == MAP_NO_KEY || map_find(&s->tasks, ev->arg))
		return false;
	if (s->tasks.count >= MAX_TASKS)
		map_release(&s->tasks);
	if (!map_at(&s->tasks, ev->arg))
		s->error = s->error ?: &error_no_memory;
	state_emit(s, m, OP_TASK_BEGIN, ev->arg, ev->arg2, ev->text, ev->stack);
	return true;
}

static bool task_end(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	map_remove(&s->tasks, ev->arg);
	state_emit(s, m, OP_TASK_END, ev->arg, ev->stack, 0, 0);
	return true;
}

static bool region_begin(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct region region = {.task = ev->arg, .type = ev->text};

	if (!state_open_region(s, m->g, &region))
		return false;
	state_emit(s, m, OP_REGION_BEGIN, ev->arg, ev->text, ev->stack, 0);
	return true;
}

/* First ends the regions inside it, whose ends were lost. A region that began before the trace is
 * ended only if no other is open. */
static bool region_end(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g = m->g;
	size_t i = g->region_count;

	while (i && (g->regions[i - 1].task != ev->arg || g->regions[i - 1].type != ev->text))
		i--;
	if (!i && g->region_count)
		return false;
	state_end_regions(s, g, i);
	if (i) {
		g->region_count--;
		s->regions--;
	}
	state_emit(s, m, OP_REGION_END, ev->arg, ev->text, ev->stack, 0);
	return true;
}

bool ranges_user(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (!runs(s, m, ev))
		return false;
	switch (ev->kind) {
	case TRACE_TASK_BEGIN:
		return task_begin(s, m, ev);
	case TRACE_TASK_END:
		return task_end(s, m, ev);
	case TRACE_REGION_BEGIN:
		return region_begin(s, m, ev);
	case TRACE_REGION_END:
		return region_end(s, m, ev);
	default:
		state_emit(s, m, OP_LOG, ev->arg, ev->text, ev->text2, ev->stack);
		return true;
	}
}
