/*
 * Lengauer, Tarjan: A fast algorithm for finding dominators in a flowgraph, TOPLAS 1979.
 *
 * Most edges of a heap lead to an object that nothing else leads to: a single node, whose dominator
 * is its parent in the tree of the search. So `forest` has arrays for the others alone, which have
 * several edges. A single node on a way up matters only if it is the last one before the end of the
 * way, and then its semidominator is that end.
 *
 * What the search finds goes into files in the order in which it is found, and the graph is not
 * needed after it.
 *
 * Three arrays serve twice. `up` is, of a node whose turn is still to come, the first of those that
 * have it as semidominator, and then what the node is linked to: its parent, and what is above that
 * once a way is compressed. `next` is the rest of that list, and then what is known of the
 * immediate dominator. `label` is, until it is a node's turn, the end of its edges from larger
 * numbers, which come after those of the rank before: nothing asks for its label before.
 */
#include "retained/dominators.h"

#include <stdlib.h>

#include "base/cleanup.h"

/* A bit for each number, and how many are set before each 64 of them. */
struct several {
	uint64_t bits;
	uint32_t before;
};

struct search {
	uint64_t *way; /* numbers on the way down that have more edges, each with the next one << 32
			*/
	size_t depth;
	uint64_t *visited; /* a bit for each node */
	uint32_t *numbers; /* by node: its first edge until it is visited, then its number */
	struct several *several;
	size_t later_count;
	/* By number, but the last one: two for each edge that found no new node, from and to. */
	struct number_writer nodes, parents, others;
};

void dominators_release(struct dominators *d)
{
	number_array_release(&d->nodes);
	number_array_release(&d->immediate);
	*d = (struct dominators){0};
}

static void search_release(struct search *s)
{
	free(s->way);
	free(s->visited);
	free(s->numbers);
	free(s->several);
	number_writer_release(&s->nodes);
	number_writer_release(&s->parents);
	number_writer_release(&s->others);
}

/* ---- the order ---- */

static void visit(struct dominators *d, struct search *s, uint32_t node, uint32_t from)
{
	uint32_t first = s->numbers[node];

	s->visited[node / 64] |= 1ull << node % 64;
	s->numbers[node] = d->count;
	number_writer_add(&s->nodes, node);
	number_writer_add(&s->parents, from);
	if (first != FLOW_NONE)
		s->way[s->depth++] = (uint64_t)first << 32 | d->count;
	d->count++;
}

static void keep_other(struct search *s, uint32_t from, uint32_t to)
{
	if (from == to || !to)
		return;
	s->several[to / 64].bits |= 1ull << to % 64;
	s->later_count += from > to;
	number_writer_add(&s->others, from);
	number_writer_add(&s->others, to);
}

/* A node whose last edge is followed leaves the way: so that of a list is short. */
static void find_order(const struct flow_graph *g, struct dominators *d, struct search *s)
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
		if (s->visited[to / 64] >> to % 64 & 1)
			keep_other(s, from, s->numbers[to]);
		else
			visit(d, s, to, from);
	}
}

/* ---- dominators ---- */

struct forest {
	uint32_t *up; /* by number */
	const struct several *several;
	/* By rank among those with several edges. */
	uint32_t *semi;
	uint32_t *label; /* the rank with the smallest semidominator on the way up, so far */
	uint32_t *next;
	uint32_t *later; /* from where edges lead to smaller numbers, by rank of these */
	struct number_array parents, others;
};

static void forest_release(struct forest *f)
{
	free(f->up);
	free(f->semi);
	free(f->label);
	free(f->next);
	free(f->later);
	number_array_release(&f->parents);
	number_array_release(&f->others);
}

static bool has_several(const struct forest *f, uint32_t number)
{
	return f->several[number / 64].bits >> number % 64 & 1;
}

static uint32_t rank_of(const struct forest *f, uint32_t number)
{
	const struct several *s = &f->several[number / 64];

	return s->before + (uint32_t)__builtin_popcountll(s->bits & ((1ull << number % 64) - 1));
}

/* What edges from a smaller number say at once; the others are put in order. */
static void use_others(struct forest *f, size_t count, uint32_t ranks)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < count; i += 2) {
		uint32_t from = number_array_pass(&f->others, i), to = f->others.items[i + 1];
		uint32_t rank = rank_of(f, to);

		if (from > to)
			f->label[rank]++;
		else if (from < f->semi[rank])
			f->semi[rank] = from;
	}
	for (uint32_t i = 0; i < ranks; i++) {
		uint32_t start = sum;

		sum += f->label[i];
		f->label[i] = start;
	}
	for (size_t i = 0; i < count; i += 2) {
		uint32_t from = number_array_pass(&f->others, i), to = f->others.items[i + 1];

		if (from > to)
			f->later[f->label[rank_of(f, to)]++] = from;
	}
	number_array_release(&f->others);
}

/* The first on the way up from v, v included, that has several edges, or is not linked yet: a
 * number up to `current`. The way there is as short as can be afterwards. */
static uint32_t first_above(struct forest *f, uint32_t v, uint32_t current)
{
	uint32_t top = v;

	while (top > current && !has_several(f, top))
		top = f->up[top];
	while (v != top) {
		uint32_t above = f->up[v];

		f->up[v] = top;
		v = above;
	}
	return top;
}

/* The rank with the smallest semidominator on the way from v up to a node that is not linked yet,
 * which is *ret_end; FLOW_NONE: only single nodes are on the way. It is as short as can be
 * afterwards. */
static uint32_t smallest_above(struct forest *f, uint32_t v, uint32_t current, uint32_t *ret_end)
{
	uint32_t below = FLOW_NONE, best, end;

	v = first_above(f, v, current);
	*ret_end = v;
	if (v <= current)
		return FLOW_NONE;
	while ((end = first_above(f, f->up[v], current)) > current) {
		f->up[v] = below;
		below = v;
		v = end;
	}
	*ret_end = f->up[v] = end;
	best = f->label[rank_of(f, v)];
	while (below != FLOW_NONE) {
		uint32_t node = below, *label = &f->label[rank_of(f, node)];

		below = f->up[node];
		if (f->semi[best] < f->semi[*label])
			*label = best;
		else
			best = *label;
		f->up[node] = end;
	}
	return best;
}

/* Those with semidominator w: their dominator is w, or that of another node with several edges,
 * which is found later: its rank, with FLOW_LAST. */
static void settle(struct forest *f, uint32_t w)
{
	for (uint32_t v = f->up[w]; v != FLOW_NONE;) {
		uint32_t *next = &f->next[rank_of(f, v)], end;
		uint32_t best = smallest_above(f, v, w, &end);

		v = *next;
		*next = f->semi[best] < w ? best | FLOW_LAST : w;
	}
}

static void find_semidominator(struct forest *f, uint32_t w, uint32_t rank)
{
	uint32_t from = rank ? f->label[rank - 1] : 0, to = f->label[rank];
	uint32_t *semi = &f->semi[rank];

	f->label[rank] = rank;
	for (uint32_t i = from; i < to; i++) {
		uint32_t end, best = smallest_above(f, f->later[i], w, &end);

		*semi = end < *semi ? end : *semi;
		if (best != FLOW_NONE && f->semi[best] < *semi)
			*semi = f->semi[best];
	}
	f->next[rank] = f->up[*semi];
	f->up[*semi] = w;
}

static struct error *must_check find_immediate(struct dominators *d, struct forest *f)
{
	_cleanup_number_writer_ struct number_writer immediate = {0};
	uint32_t rank = 0;

	for (uint32_t w = d->count - 1; w > 0; w--) {
		settle(f, w);
		f->up[w] = number_array_pass(&f->parents, w);
		if (has_several(f, w))
			find_semidominator(f, w, rank_of(f, w));
	}
	settle(f, 0);
	number_writer_add(&immediate, 0);
	for (uint32_t w = 1; w < d->count; w++) {
		uint32_t parent = number_array_pass(&f->parents, w), *next = &f->next[rank];

		if (has_several(f, w)) {
			if (*next & FLOW_LAST)
				*next = f->next[*next & ~FLOW_LAST];
			parent = *next;
			rank++;
		}
		number_writer_add(&immediate, parent);
	}
	return number_writer_finish(&immediate, &d->immediate);
}

static uint32_t make_ranks(struct several *several, uint32_t count)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i <= count / 64; i++) {
		several[i].before = sum;
		sum += (uint32_t)__builtin_popcountll(several[i].bits);
	}
	return sum;
}

static struct error *must_check make_tree(struct dominators *d, struct search *s)
{
	uint32_t ranks = make_ranks(s->several, d->count);
	size_t others = s->others.written + s->others.count;
	_cleanup_(forest_release) struct forest f = {
		.up = flow_numbers(d->count, 0xff),
		.several = s->several,
		.semi = flow_room(ranks),
		.label = flow_numbers(ranks, 0),
		.next = flow_numbers(ranks, 0xff),
		.later = flow_room(s->later_count),
	};
	struct error *err = number_writer_finish(&s->parents, &f.parents);

	if (!err)
		err = number_writer_finish(&s->others, &f.others);
	if (!err && (!f.up || !f.semi || !f.label || !f.next || !f.later))
		err = &error_no_memory;
	if (err)
		return err;
	for (uint32_t i = 0, rank = 0; i < d->count; i++)
		if (has_several(&f, i))
			f.semi[rank++] = number_array_pass(&f.parents, i);
	use_others(&f, others, ranks);
	return find_immediate(d, &f);
}

/* The graph's own array where a file has a copy. */
static uint32_t *take_first(struct flow_graph *g)
{
	uint32_t *copy;

	if (g->file && !g->mapped)
		return take_ptr(g->first);
	copy = flow_room(g->count);
	if (copy)
		for (uint32_t i = 0; i < g->count; i++)
			copy[i] = g->first[i];
	return copy;
}

struct error *dominators_find(struct flow_graph *g, struct dominators *ret)
{
	_cleanup_dominators_ struct dominators d = {0};
	_cleanup_(search_release) struct search s = {
		/* The way is rarely long: memory that is not written to takes no room. */
		.way = malloc(((size_t)g->count + 1) * sizeof(*s.way)),
		.visited = calloc(g->count / 64 + 1, sizeof(*s.visited)),
		.numbers = take_first(g),
		.several = calloc(g->count / 64 + 1, sizeof(*s.several)),
	};
	struct error *err;

	if (!s.way || !s.visited || !s.numbers || !s.several)
		return &error_no_memory;
	find_order(g, &d, &s);
	free(take_ptr(s.way));
	free(take_ptr(s.visited));
	free(take_ptr(s.numbers));
	flow_graph_put_aside(g);
	err = number_writer_finish(&s.nodes, &d.nodes);
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

/* Up to a node's turn `sizes` counts what it dominates; then it is the place of the next node that
 * it dominates at once. */
struct error *dominators_places(const struct dominators *d, struct number_array *ret_places,
				struct number_array *ret_sizes)
{
	_cleanup_number_writer_ struct number_writer places = {0}, kept = {0};
	_cleanup_free_ uint32_t *sizes = flow_numbers(d->count, 0);
	struct error *err;

	if (!sizes)
		return &error_no_memory;
	for (uint32_t i = d->count; i-- > 1;)
		sizes[number_array_pass(&d->immediate, i)] += ++sizes[i];
	sizes[0]++;
	for (uint32_t i = 0; i < d->count; i++) {
		uint32_t *above = &sizes[number_array_pass(&d->immediate, i)];
		uint32_t size = sizes[i], place = i ? *above : 0;

		number_writer_add(&places, place);
		number_writer_add(&kept, size);
		*above += i ? size : 0;
		sizes[i] = place + 1;
	}
	err = number_writer_finish(&places, ret_places);
	return err ? err : number_writer_finish(&kept, ret_sizes);
}
