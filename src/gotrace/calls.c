#include "gotrace/calls.h"

/* The outermost call whose frame is at this place or further in; region_count if there is none. */
static size_t find_over(const struct state_g *g, uint64_t frame)
{
	size_t i = 0;

	while (i < g->region_count && (!g->regions[i].frame || g->regions[i].frame < frame))
		i++;
	return i;
}

static bool begin(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct region call = {.type = ev->text, .frame = ev->arg};
	struct state_g *g = m->g;

	state_end_regions(s, g, find_over(g, ev->arg));
	if (!state_open_region(s, g, &call))
		return false;
	state_emit(s, m, OP_REGION_BEGIN, 0, ev->text, ev->stack, 0);
	return true;
}

/* A call that began before the trace is ended only if no other is open. */
static bool end(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g = m->g;
	size_t i = find_over(g, ev->arg);
	bool known = i < g->region_count && g->regions[i].frame == ev->arg &&
		     g->regions[i].type == ev->text;

	state_end_regions(s, g, i + known);
	if (!known && g->region_count)
		return false;
	g->region_count -= known;
	s->regions -= known;
	state_emit(s, m, OP_REGION_END, 0, ev->text, ev->stack, 0);
	return true;
}

bool calls_take(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	if (!m || !ev->g || !ev->arg || !state_run(s, m, ev->p, ev->g))
		return false;
	return ev->kind == TRACE_CALL ? begin(s, m, ev) : end(s, m, ev);
}
