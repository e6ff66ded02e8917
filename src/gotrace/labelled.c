#include "gotrace/labelled.h"

#include "base/array.h"
#include "base/cleanup.h"

static void put_off(struct state *s, struct state_g *g)
{
	if (g->pending)
		return;
	/* More than there are goroutines: those that were pending have ended. */
	if (s->pending_labels_count >= STATE_MAX_GOROUTINES) {
		s->stats.refused++;
		return;
	}
	g->pending = true;
	if (array_reserve(&s->pending_labels, &s->pending_labels_capacity,
			  s->pending_labels_count + 1))
		s->pending_labels[s->pending_labels_count++] = g->id;
	else
		s->error = s->error ?: &error_no_memory;
}

static void emit_labels(struct state *s, const struct state_m *m, const struct state_g *g,
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
		emit_labels(s, m, g, TRACE_LABELS_BY_ITSELF);
	} else {
		put_off(s, g);
		emit_pending_labels(s, m);
	}
	return true;
}

void emit_pending_labels(struct state *s, struct state_m *m)
{
	const struct state_m *host = s->pending_labels_count ? state_host(s, m, false) : NULL;

	if (!host)
		return;
	for (size_t i = 0; i < s->pending_labels_count; i++) {
		struct state_g *g = state_goroutine(s, s->pending_labels[i]);

		if (!g || !g->pending)
			continue;
		g->pending = false;
		emit_labels(s, host, g, TRACE_LABELS_BY_ANOTHER);
	}
	s->pending_labels_count = 0;
}

void labelled_repeat(struct state *s)
{
	_cleanup_free_ uint64_t *ids = state_ids(s, &s->goroutines);

	s->pending_labels_count = 0;
	for (size_t i = 0; ids && i < s->goroutines.count; i++) {
		struct state_g *g = state_find_goroutine(s, ids[i]);

		g->pending = false;
		if (g->labels)
			put_off(s, g);
	}
}
