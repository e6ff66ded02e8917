/*
 * Lengauer, Tarjan: A fast algorithm for finding dominators in a flowgraph, TOPLAS 1979.
 *
 * Most edges of a heap lead to an object that nothing else leads to. They are those of the search's
 * tree, and `forest` has them; only the others are kept, and the graph is not needed after the
 * search.
 *
 * Three arrays serve twice. `up` is the parent in the tree of the search until a path is
 * compressed: a node with a larger number than the current one is linked to it. `immediate` is the
 * list of the nodes that have the same semidominator until their dominator is known: a node has no
 * list any more when it is put into one. `label` is the list of the edges that lead back to a node
 * until it is its turn: nothing asks for its label before.
 */
#include "retained/dominators.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

/* An edge that found no new node. */
struct other_edge {
	uint32_t from; /* numbers */
	uint32_t to;   /* later the next edge that leads back to the same node + 1; 0: none */
};

struct search {
	uint64_t *way; /* numbers on the way down that have more edges, each with the next one << 32
			*/
	size_t depth;
	uint32_t *nodes;   /* by number */
	uint64_t *visited; /* a bit for each node */
	uint32_t *numbers; /* by node: its first edge until it is visited, then its number */
	uint32_t *parents; /* by number */
	struct other_edge *others;
	size_t other_count;
	size_t other_capacity;
};

void dominators_release(struct dominators *d)
{
	number_array_release(&d->nodes);
	free(d->immediate);
	*d = (struct dominators){0};
}

static void search_release(struct search *s)
{
	free(s->way);
	free(s->nodes);
	free(s->visited);
	free(s->numbers);
	free(s->parents);
	free(s->others);
}

/* ---- the order ---- */

static void visit(struct dominators *d, struct search *s, uint32_t node, uint32_t from)
{
	uint32_t first = s->numbers[node];

	s->visited[node / 64] |= 1ull << node % 64;
	s->parents[d->count] = from;
	s->numbers[node] = d->count;
	s->nodes[d->count] = node;
	if (first != FLOW_NONE)
		s->way[s->depth++] = (uint64_t)first << 32 | d->count;
	d->count++;
}

static bool keep_other(struct search *s, uint32_t from, uint32_t to)
{
	if (from == to)
		return true;
	if (s->other_count == s->other_capacity) {
		size_t room = s->other_capacity + s->other_capacity / 4 + 1024;
		struct other_edge *items = realloc(s->others, room * sizeof(*items));

		if (!items)
			return false;
		s->others = items;
		s->other_capacity = room;
	}
	s->others[s->other_count++] = (struct other_edge){from, to};
	return true;
}

/* A node whose last edge is followed leaves the way: so that of a list is short. */
static struct error *must_check find_order(const struct flow_graph *g, struct dominators *d,
					   struct search *s)
{
	visit(d, s, 0, 0);
	while (s->depth) {
		uint64_t top = s->way[s->depth - 1];
		uint32_t at = (uint32_t)(top >> 32), from = (uint32_t)top;
		uint32_t to = g->edges[at] & ~FLOW_LAST;

		if (g->edges[at] & FLOW_LAST)
			s->depth--;
		else
			s->way[s->depth - 1] = (uint64_t)(at + 1) << 32 | from;
		if (!(s->visited[to / 64] >> to % 64 & 1))
			visit(d, s, to, from);
		else if (!keep_other(s, from, s->numbers[to]))
			return &error_no_memory;
	}
	return NULL;
}

/* ---- dominators ---- */

struct forest {
	uint32_t *up;
	uint32_t *semi;
	uint32_t *label; /* the node with the smallest semidominator on the way up, so far */
	const struct other_edge *others;
};

/* What edges to a node with a larger number say of it at once; the others are put into lists. */
static void use_others(struct forest *f, struct search *s)
{
	for (size_t i = 0; i < s->other_count; i++) {
		struct other_edge *e = &s->others[i];
		uint32_t to = e->to;

		if (e->from < to) {
			f->semi[to] = e->from < f->semi[to] ? e->from : f->semi[to];
			continue;
		}
		e->to = f->label[to];
		f->label[to] = (uint32_t)i + 1;
	}
}

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
		uint32_t edge = f->label[w];

		settle(f, immediate, w);
		f->label[w] = w;
		for (; edge; edge = f->others[edge - 1].to) {
			uint32_t u = smallest_above(f, f->others[edge - 1].from, w);

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

static struct error *must_check make_tree(struct dominators *d, struct search *s)
{
	struct forest f = {.up = s->parents,
			   .semi = flow_numbers(d->count, 0),
			   .label = flow_numbers(d->count, 0),
			   .others = s->others};
	bool ok = f.semi && f.label;

	d->immediate = flow_numbers(d->count, 0xff);
	ok &= d->immediate != NULL;
	if (ok) {
		memcpy(f.semi, s->parents, d->count * sizeof(*f.semi));
		use_others(&f, s);
		find_immediate(d, &f);
	}
	free(f.semi);
	free(f.label);
	return ok ? NULL : &error_no_memory;
}

/* The graph's own array where a file has a copy. */
static uint32_t *take_first(struct flow_graph *g)
{
	uint32_t *copy;

	if (g->file && !g->mapped)
		return take_ptr(g->first);
	copy = flow_room(g->count);
	if (copy)
		memcpy(copy, g->first, (size_t)g->count * sizeof(*copy));
	return copy;
}

struct error *dominators_find(struct flow_graph *g, struct dominators *ret)
{
	_cleanup_dominators_ struct dominators d = {0};
	_cleanup_(search_release) struct search s = {
		/* The way is rarely long: memory that is not written to takes no room. */
		.way = malloc(((size_t)g->count + 1) * sizeof(*s.way)),
		.nodes = flow_room(g->count),
		.visited = calloc(g->count / 64 + 1, sizeof(*s.visited)),
		.numbers = take_first(g),
		.parents = flow_room(g->count),
	};
	struct error *err;

	if (!s.nodes || !s.way || !s.numbers || !s.parents || !s.visited)
		return &error_no_memory;
	err = find_order(g, &d, &s);
	free(take_ptr(s.way));
	free(take_ptr(s.visited));
	free(take_ptr(s.numbers));
	flow_graph_put_aside(g);
	d.nodes = number_array_of(take_ptr(s.nodes), d.count);
	if (!err)
		err = make_tree(&d, &s);
	if (err)
		return err;
	*ret = d;
	d = (struct dominators){0};
	return NULL;
}

/* ---- what is made of them ---- */

struct error *dominators_numbers(const struct dominators *d, uint32_t nodes, uint32_t **ret)
{
	uint32_t *numbers = flow_numbers(nodes, 0xff);

	if (!numbers)
		return &error_no_memory;
	for (uint32_t i = 0; i < d->count; i++)
		numbers[number_array_pass(&d->nodes, i)] = i;
	*ret = numbers;
	return NULL;
}

struct error *dominators_children(const struct dominators *d, uint32_t **ret_first,
				  uint32_t **ret_next)
{
	_cleanup_free_ uint32_t *first = flow_numbers(d->count, 0);
	_cleanup_free_ uint32_t *next = flow_numbers(d->count, 0);

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
