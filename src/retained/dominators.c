/*
 * Lengauer, Tarjan: A fast algorithm for finding dominators in a flowgraph, TOPLAS 1979. Two arrays
 * serve twice. `forest` is the parent in the tree of the search until a path is compressed: a node
 * with a larger number than the current one is linked to it. `immediate` is the list of the nodes
 * that have the same semidominator until their dominator is known: a node has no list any more when
 * it is put into one.
 */
#include "retained/dominators.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

void dominators_release(struct dominators *d)
{
	free(d->nodes);
	free(d->numbers);
	free(d->immediate);
	free(d->first_source);
	free(d->sources);
	*d = (struct dominators){0};
}

static uint32_t *numbers_of(size_t count, uint8_t fill)
{
	uint32_t *items = malloc((count + 1) * sizeof(*items));

	if (items)
		memset(items, fill, (count + 1) * sizeof(*items));
	return items;
}

/* ---- the order ---- */

/* The nodes on the way down, each with the place of its next edge. */
struct search {
	uint64_t *items; /* place << 32 | node */
	size_t count;
	size_t capacity;
};

static bool push(struct search *s, const struct flow_graph *g, uint32_t node)
{
	if (!array_reserve(&s->items, &s->capacity, s->count + 1))
		return false;
	s->items[s->count++] = (uint64_t)g->first[node] << 32 | node;
	return true;
}

static void visit(struct dominators *d, uint32_t *parents, uint32_t node, uint32_t from)
{
	parents[d->count] = from;
	d->numbers[node] = d->count;
	d->nodes[d->count++] = node;
}

static struct error *must_check find_order(const struct flow_graph *g, struct dominators *d,
					   uint32_t *parents)
{
	struct search s = {0};
	bool ok = push(&s, g, 0);

	visit(d, parents, 0, 0);
	while (ok && s.count) {
		uint64_t *top = &s.items[s.count - 1];
		uint32_t at = (uint32_t)(*top >> 32), node = (uint32_t)*top, to;

		if (at == FLOW_NONE) {
			s.count--;
			continue;
		}
		to = g->edges[at] & ~FLOW_LAST;
		*top = (uint64_t)(g->edges[at] & FLOW_LAST ? FLOW_NONE : at + 1) << 32 | node;
		if (d->numbers[to] != FLOW_NONE)
			continue;
		visit(d, parents, to, d->numbers[node]);
		ok = push(&s, g, to);
	}
	free(s.items);
	return ok ? NULL : &error_no_memory;
}

/* ---- the edges backwards ---- */

static void count_sources(const struct flow_graph *g, struct dominators *d)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < d->count; i++) {
		size_t at = g->first[d->nodes[i]];
		bool more = at != FLOW_NONE;

		for (; more; at++) {
			more = !(g->edges[at] & FLOW_LAST);
			d->first_source[d->numbers[g->edges[at] & ~FLOW_LAST]]++;
		}
	}
	for (uint32_t i = 0; i <= d->count; i++) {
		uint32_t n = i < d->count ? d->first_source[i] : 0;

		d->first_source[i] = sum;
		sum += n;
	}
}

/* Each edge is put at the place of its target, which then moves on: afterwards the places are those
 * of the next node. */
static void put_sources(const struct flow_graph *g, struct dominators *d)
{
	for (uint32_t i = 0; i < d->count; i++) {
		size_t at = g->first[d->nodes[i]];
		bool more = at != FLOW_NONE;

		for (; more; at++) {
			more = !(g->edges[at] & FLOW_LAST);
			d->sources[d->first_source[d->numbers[g->edges[at] & ~FLOW_LAST]]++] = i;
		}
	}
	memmove(d->first_source + 1, d->first_source, d->count * sizeof(*d->first_source));
	d->first_source[0] = 0;
}

static struct error *must_check find_sources(const struct flow_graph *g, struct dominators *d)
{
	d->first_source = numbers_of(d->count, 0);
	d->sources = malloc((g->edge_count + 1) * sizeof(*d->sources));
	if (!d->first_source || !d->sources)
		return &error_no_memory;
	count_sources(g, d);
	put_sources(g, d);
	return NULL;
}

/* ---- dominators ---- */

struct forest {
	uint32_t *up;
	uint32_t *semi;
	uint32_t *label; /* the node with the smallest semidominator on the way up, so far */
};

/* The node with the smallest semidominator on the way from v up to a node that is not linked yet:
 * one with a number up to `current`. The way there is as short as can be afterwards. */
static uint32_t smallest_above(struct forest *f, uint32_t v, uint32_t current)
{
	uint32_t below = FLOW_NONE, best, root;

	if (v <= current)
		return v;
	while (f->up[v] > current) {
		uint32_t above = f->up[v];

		f->up[v] = below;
		below = v;
		v = above;
	}
	root = f->up[v];
	best = f->label[v];
	while (below != FLOW_NONE) {
		uint32_t node = below;

		below = f->up[node];
		if (f->semi[best] < f->semi[f->label[node]])
			f->label[node] = best;
		else
			best = f->label[node];
		f->up[node] = root;
	}
	return best;
}

/* Those with semidominator w: their dominator is w, or that of another node, which is found later.
 */
static void settle(struct forest *f, uint32_t *immediate, uint32_t w)
{
	for (uint32_t v = immediate[w], next; v != FLOW_NONE; v = next) {
		uint32_t u = smallest_above(f, v, w);

		next = immediate[v];
		immediate[v] = f->semi[u] < w ? u : w;
	}
}

static void find_immediate(struct dominators *d, struct forest *f)
{
	uint32_t *immediate = d->immediate;

	for (uint32_t w = d->count - 1; w > 0; w--) {
		settle(f, immediate, w);
		for (uint32_t i = d->first_source[w]; i < d->first_source[w + 1]; i++) {
			uint32_t u = smallest_above(f, d->sources[i], w);

			if (f->semi[u] < f->semi[w])
				f->semi[w] = f->semi[u];
		}
		immediate[w] = immediate[f->semi[w]];
		immediate[f->semi[w]] = w;
	}
	settle(f, immediate, 0);
	immediate[0] = 0;
	for (uint32_t w = 1; w < d->count; w++)
		if (immediate[w] != f->semi[w])
			immediate[w] = immediate[immediate[w]];
}

static struct error *must_check make_tree(struct dominators *d, uint32_t *parents)
{
	struct forest f = {.up = parents,
			   .semi = numbers_of(d->count, 0),
			   .label = numbers_of(d->count, 0)};
	bool ok = f.semi && f.label;

	d->immediate = numbers_of(d->count, 0xff);
	ok &= d->immediate != NULL;
	for (uint32_t i = 0; ok && i < d->count; i++)
		f.semi[i] = f.label[i] = i;
	if (ok)
		find_immediate(d, &f);
	free(f.semi);
	free(f.label);
	return ok ? NULL : &error_no_memory;
}

struct error *dominators_find(struct flow_graph *g, struct dominators *ret)
{
	_cleanup_dominators_ struct dominators d = {0};
	_cleanup_free_ uint32_t *parents = numbers_of(g->count, 0);
	struct error *err;

	d.nodes = numbers_of(g->count, 0);
	d.numbers = numbers_of(g->count, 0xff);
	if (!parents || !d.nodes || !d.numbers)
		return &error_no_memory;
	err = find_order(g, &d, parents);
	if (!err)
		err = find_sources(g, &d);
	if (err)
		return err;
	flow_graph_release(g);
	err = make_tree(&d, parents);
	if (err)
		return err;
	*ret = d;
	d = (struct dominators){0};
	return NULL;
}

/* ---- what is made of them ---- */

void dominators_sum(const struct dominators *d, uint64_t *sizes)
{
	for (uint32_t i = d->count; i-- > 1;)
		sizes[d->immediate[i]] += sizes[i];
}

struct error *dominators_children(const struct dominators *d, uint32_t **ret_first,
				  uint32_t **ret_next)
{
	_cleanup_free_ uint32_t *first = numbers_of(d->count, 0);
	_cleanup_free_ uint32_t *next = numbers_of(d->count, 0);

	if (!first || !next)
		return &error_no_memory;
	for (uint32_t i = d->count; i-- > 1;) {
		next[i] = first[d->immediate[i]];
		first[d->immediate[i]] = i;
	}
	*ret_first = take_ptr(first);
	*ret_next = take_ptr(next);
	return NULL;
}
