#include "gotrace/labelled.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

/* `which` is one of the goroutine's two flags. */
static void put_off(struct state *s, struct state_g *g, bool *which)
{
	bool listed = g->pending || g->parked_pending;

	if (listed) {
		*which = true;
		return;
	}
	/* The list is longer than the number of goroutines: some of its goroutines have ended. */
	if (s->pending_labels_count >= STATE_MAX_GOROUTINES) {
		s->stats.refused++;
		return;
	}
	*which = true;
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
		put_off(s, g, &g->pending);
		emit_pending_labels(s, m);
	}
	return true;
}

bool labelled_park(struct state *s, struct state_m *m, const struct trace_event *ev)
{
	struct state_g *g = state_goroutine(s, ev->g);

	if (!g || !g->parked.stack)
		return false;
	g->parked.reason = ev->text;
	g->parked.waited_ns = ev->arg;
	put_off(s, g, &g->parked_pending);
	return true;
}

/* Goroutines that wait at one place come in sequence, which some formats merge. */
static int by_place(const void *a, const void *b)
{
	const struct state_g *x = *(const struct state_g *const *)a;
	const struct state_g *y = *(const struct state_g *const *)b;

	if (x->parked.stack != y->parked.stack)
		return x->parked.stack < y->parked.stack ? -1 : 1;
	if (x->parked.reason != y->parked.reason)
		return x->parked.reason < y->parked.reason ? -1 : 1;
	if (x->parked.waited_ns != y->parked.waited_ns)
		return x->parked.waited_ns < y->parked.waited_ns ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static void emit_parked(struct state *s, const struct state_m *host, struct state_g **all,
			size_t count)
{
	if (count)
		qsort(all, count, sizeof(*all), by_place);
	for (size_t i = 0; i < count; i++)
		state_emit(s, host, OP_PARKED, all[i]->id, all[i]->parked.reason,
			   all[i]->parked.waited_ns, all[i]->parked.stack);
}

static void emit_pending_on(struct state *s, const struct state_m *host)
{
	size_t count = s->pending_labels_count, parked = 0;
	_cleanup_free_ struct state_g **all = malloc((count + 1) * sizeof(*all));

	s->pending_labels_count = 0;
	if (!all) {
		s->error = s->error ?: &error_no_memory;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		struct state_g *g = state_goroutine(s, s->pending_labels[i]);

		if (!g)
			continue;
		if (g->pending)
			emit_labels(s, host, g, TRACE_LABELS_BY_ANOTHER);
		if (g->parked_pending && g->parked.stack)
			all[parked++] = g;
		g->pending = g->parked_pending = false;
	}
	emit_parked(s, host, all, parked);
}

void emit_pending_labels(struct state *s, struct state_m *m)
{
	const struct state_m *host = s->pending_labels_count ? state_host(s, m, false) : NULL;

	if (host)
		emit_pending_on(s, host);
}

static void emit_by_helper(struct state *s)
{
	struct state_m *host = state_begin_helper(s);

	if (!host)
		return;
	emit_pending_on(s, host);
	state_end_helper(s, host);
}

void labelled_emit_all(struct state *s)
{
	emit_pending_labels(s, NULL);
	if (!s->pending_labels_count)
		return;
	if (s->sink.logs_run)
		emit_by_helper(s);
	else
		emit_pending_on(s, NULL);
}

void labelled_repeat(struct state *s)
{
	_cleanup_free_ uint64_t *ids = state_ids(s, &s->goroutines);

	s->pending_labels_count = 0;
	for (size_t i = 0; ids && i < s->goroutines.count; i++) {
		struct state_g *g = state_find_goroutine(s, ids[i]);

		g->pending = g->parked_pending = false;
		if (g->labels)
			put_off(s, g, &g->pending);
		if (g->parked.stack)
			put_off(s, g, &g->parked_pending);
	}
}
