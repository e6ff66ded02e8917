#include "trace/calls.h"

#include "base/array.h"

/* Ends all regions from the i-th on. */
static void end_from(struct state *s, struct state_m *m, size_t i)
{
	struct state_g *g = m->g;

	while (g->region_count > i) {
		const struct region *open = &g->regions[--g->region_count];

		state_emit(s, m, OP_REGION_END, open->task, open->type, 0, 0);
	}
}

/* The outermost call whose frame is at this place or further in; region_count: none. */
static size_t find_over(const struct state_g *g, uint64_t frame)
{
	size_t i = 0;

	while (i < g->region_count && (!g->regions[i].frame || g->regions[i].frame < frame))
		i++;
	return i;
}

static bool begin(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g = m->g;

	end_from(s, m, find_over(g, ev->arg));
	if (!array_reserve(&g->regions, &g->region_capacity, g->region_count + 1)) {
		s->error = s->error ?: &error_no_memory;
		return false;
	}
	g->regions[g->region_count++] = (struct region){.type = ev->text, .frame = ev->arg};
	state_emit(s, m, OP_REGION_BEGIN, 0, ev->text, ev->stack, 0);
	return true;
}

/* One that began before the trace did is ended only where nothing else is open. */
static bool end(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g = m->g;
	size_t i = find_over(g, ev->arg);
	bool known = i < g->region_count && g->regions[i].frame == ev->arg &&
		     g->regions[i].type == ev->text;

	end_from(s, m, i + known);
	if (!known && g->region_count)
		return false;
	g->region_count -= known;
	state_emit(s, m, OP_REGION_END, 0, ev->text, ev->stack, 0);
	return true;
}

bool calls_take(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (!m || !ev->g || !ev->arg || !state_run(s, m, ev->p, ev->g))
		return false;
	return ev->kind == TRACE_CALL ? begin(s, m, ev) : end(s, m, ev);
}
