#include "gotrace/labelled.h"

#include "base/array.h"
#include "base/cleanup.h"

static void put_off(struct state *s, struct state_g *g)
{
	if (g->unsaid)
		return;
	/* More than there are goroutines: those that were to be said have ended unsaid. */
	if (s->unsaid_count >= STATE_MAX_GOROUTINES) {
		s->stats.refused++;
		return;
	}
	g->unsaid = true;
	if (array_reserve(&s->unsaid, &s->unsaid_capacity, s->unsaid_count + 1))
		s->unsaid[s->unsaid_count++] = g->id;
	else
		s->error = s->error ?: &error_no_memory;
}

static void say(struct state *s, const struct state_m *m, const struct state_g *g,
		enum trace_labels_by by)
{
	state_emit(s, m, OP_LABELS, g->id, g->labels, by, 0);
}

bool labelled_set(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	bool by_itself = ev->arg == TRACE_LABELS_BY_ITSELF && m && state_run(s, m, ev->p, ev->g);
	struct state_g *g = state_goroutine(s, ev->g);

	if (!g)
		return false;
	if (g->labels == ev->text)
		return true;
	g->labels = ev->text;
	if (by_itself) {
		say(s, m, g, TRACE_LABELS_BY_ITSELF);
	} else {
		put_off(s, g);
		labelled_say(s, m);
	}
	return true;
}

void labelled_say(struct state *s, struct state_m *m)
{
	const struct state_m *host = s->unsaid_count ? state_host(s, m, false) : NULL;

	if (!host)
		return;
	for (size_t i = 0; i < s->unsaid_count; i++) {
		struct state_g *g = state_goroutine(s, s->unsaid[i]);

		if (!g || !g->unsaid)
			continue;
		g->unsaid = false;
		say(s, host, g, TRACE_LABELS_BY_ANOTHER);
	}
	s->unsaid_count = 0;
}

void labelled_repeat(struct state *s)
{
	_cleanup_free_ uint64_t *ids = state_ids(s, &s->goroutines);

	s->unsaid_count = 0;
	for (size_t i = 0; ids && i < s->goroutines.count; i++) {
		struct state_g *g = state_find_goroutine(s, ids[i]);

		g->unsaid = false;
		if (g->labels)
			put_off(s, g);
	}
}
