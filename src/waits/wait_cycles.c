/*
 * Cycles: each goroutine waits for what the next one has.
 *
 * A cycle of proved holders is a deadlock: a lock is not released while its holder waits, and a
 * WaitGroup needs each of its goroutines. A goroutine in a select can wait for other things, so it
 * is in no cycle.
 *
 * A cycle with candidates is a suspected deadlock. It is reported only if, for each of its
 * goroutines, all known holders of its objects wait within the same set, and nothing else can wake
 * them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "waits/room.h"

#define MAX_CYCLES 1000
/* The limit of holders that the search examines: a target may claim chains of any length. */
#define MAX_LOOKS (100u << 20)

/* A depth-first search. */
struct walk {
	struct wait_graph *w;
	bool proved;         /* only these holders count */
	const bool *members; /* only these goroutines; NULL: all */
	uint8_t *state;      /* of each goroutine: NEW, OPEN, DONE */
	struct step *path;
	size_t depth;
};

enum { NEW, OPEN, DONE };

struct step {
	uint32_t goroutine;
	uint32_t edge;   /* of the goroutine's edges */
	uint32_t holder; /* of its object, the next one to examine */
};

static bool may_be_stuck(enum wait_kind kind)
{
	return kind <= WAIT_CHANNEL;
}

static struct error *add_cycle(struct walk *k, uint32_t goroutine)
{
	struct wait_graph *w = k->w;
	struct wait_cycle cycle = {.proved = k->proved};
	size_t first = k->depth;

	while (first && k->path[first - 1].goroutine != goroutine)
		first--;
	first -= first != 0;
	if (w->cycle_count == MAX_CYCLES) {
		w->truncated = true;
		return NULL;
	}
	cycle.steps = calloc(k->depth - first, sizeof(*cycle.steps));
	if (!cycle.steps || !array_reserve(&w->cycles, &w->cycle_capacity, w->cycle_count + 1)) {
		free(cycle.steps);
		return &error_no_memory;
	}
	for (size_t i = first; i < k->depth; i++) {
		const struct wait_goroutine *g = &w->goroutines[k->path[i].goroutine];

		cycle.steps[cycle.count++] = (struct wait_step){
			k->path[i].goroutine,
			w->edges[g->first_edge + k->path[i].edge].object,
		};
	}
	w->cycles[w->cycle_count++] = cycle;
	return NULL;
}

/* Whether the waiter waits for this holder. For an RWMutex, readers wait for writers, and the next
 * writer waits for readers. */
static bool is_in_the_way(const struct wait_edge *e, const struct wait_holder *h)
{
	if (e->kind != WAIT_RWMUTEX)
		return true;
	return e->side == WAIT_WRITE && e->is_pending ? h->reads : !h->reads;
}

/* The next holder of what the goroutine at the end of the path waits for; false: none is left. */
static bool next_holder(const struct walk *k, struct step *s, uint32_t *ret)
{
	const struct wait_graph *w = k->w;
	const struct wait_goroutine *g = &w->goroutines[s->goroutine];

	for (; s->edge < g->edge_count; s->edge++, s->holder = 0) {
		const struct wait_edge *e = &w->edges[g->first_edge + s->edge];
		const struct wait_object *o = &w->objects[e->object];

		if (!may_be_stuck(e->kind) || (k->proved && e->is_case))
			continue;
		while (s->holder < o->holder_count) {
			const struct wait_holder *h = &o->holders[s->holder++];

			if ((k->proved && !h->proved) || !is_in_the_way(e, h) ||
			    (k->members && !k->members[h->goroutine]))
				continue;
			*ret = h->goroutine;
			return true;
		}
	}
	return false;
}

static void enter(struct walk *k, uint32_t goroutine)
{
	k->state[goroutine] = OPEN;
	k->path[k->depth++] = (struct step){.goroutine = goroutine};
}

/* Ends the search when a cycle is found: one cycle is reported for each goroutine. */
static void leave_all(struct walk *k)
{
	while (k->depth)
		k->state[k->path[--k->depth].goroutine] = DONE;
}

static struct error *walk_from(struct walk *k, uint32_t start)
{
	struct error *err = NULL;

	enter(k, start);
	while (!err && k->depth) {
		struct step *last = &k->path[k->depth - 1];
		uint32_t next;

		if (!next_holder(k, last, &next)) {
			k->state[last->goroutine] = DONE;
			k->depth--;
		} else if (k->state[next] == NEW) {
			enter(k, next);
		} else if (k->state[next] == OPEN) {
			err = add_cycle(k, next);
			leave_all(k);
		}
	}
	return err;
}

static struct error *walk_all(struct wait_graph *w, bool proved, const bool *members)
{
	_cleanup_free_ uint8_t *state = calloc(w->count + 1, 1);
	_cleanup_free_ struct step *path = calloc(w->count + 1, sizeof(*path));
	struct walk k = {.w = w,
			 .proved = proved,
			 .members = members,
			 .state = state,
			 .path = path};
	struct error *err = NULL;

	if (!state || !path)
		return &error_no_memory;
	for (size_t i = 0; !err && i < w->count; i++)
		if (state[i] == NEW && w->goroutines[i].edge_count && (!members || members[i]))
			err = walk_from(&k, i);
	return err;
}

/* ---- suspicions ---- */

/* An unknown goroutine may wake its waiters. */
static bool is_open(const struct wait_object *o)
{
	bool is_lock = o->kind == WAIT_MUTEX || o->kind == WAIT_RWMUTEX;

	return !may_be_stuck(o->kind) || !o->holder_count || o->is_timed ||
	       (o->is_global && !is_lock) || o->holder_count >= WAITS_MAX_HOLDERS;
}

static bool stays(const struct wait_graph *w, const struct wait_goroutine *g, const bool *members,
		  size_t *looks)
{
	for (uint32_t i = 0; i < g->edge_count; i++) {
		const struct wait_object *o = &w->objects[w->edges[g->first_edge + i].object];

		if (is_open(o))
			return false;
		*looks += o->holder_count + 1;
		for (size_t k = 0; k < o->holder_count; k++)
			if (!members[o->holders[k].goroutine])
				return false;
	}
	return g->edge_count;
}

static struct error *find_suspicions(struct wait_graph *w)
{
	_cleanup_free_ bool *members = calloc(w->count + 1, sizeof(*members));
	size_t looks = 0;
	bool again = true;

	if (!members)
		return &error_no_memory;
	for (size_t i = 0; i < w->count; i++)
		members[i] = w->goroutines[i].edge_count;
	/* Deadlocks are reported already. */
	for (size_t i = 0; i < w->cycle_count; i++)
		for (size_t k = 0; k < w->cycles[i].count; k++)
			members[w->cycles[i].steps[k].goroutine] = false;
	while (again) {
		again = false;
		looks += w->count;
		if (looks > MAX_LOOKS) {
			w->truncated = true;
			return NULL;
		}
		for (size_t i = 0; i < w->count; i++) {
			if (!members[i] || stays(w, &w->goroutines[i], members, &looks))
				continue;
			members[i] = false;
			again = true;
		}
	}
	return walk_all(w, false, members);
}

/* ---- the order: the same for the same goroutines, wherever the runtime keeps them ---- */

static void rotate(struct wait_step *steps, size_t count, size_t first, struct wait_step *scratch)
{
	memcpy(scratch, steps, first * sizeof(*steps));
	memmove(steps, steps + first, (count - first) * sizeof(*steps));
	memcpy(steps + count - first, scratch, first * sizeof(*steps));
}

/* Each cycle begins with its oldest goroutine: the one with the least id. */
static struct error *begin_with_the_oldest(struct wait_graph *w)
{
	_cleanup_free_ struct wait_step *scratch = calloc(w->count + 1, sizeof(*scratch));

	if (!scratch)
		return &error_no_memory;
	for (size_t i = 0; i < w->cycle_count; i++) {
		struct wait_cycle *c = &w->cycles[i];
		size_t first = 0;

		for (size_t k = 1; k < c->count; k++)
			if (w->goroutines[c->steps[k].goroutine].id <
			    w->goroutines[c->steps[first].goroutine].id)
				first = k;
		rotate(c->steps, c->count, first, scratch);
		c->oldest = w->goroutines[c->steps[0].goroutine].id;
	}
	return NULL;
}

/* Proved ones first, then the shortest, which is the easiest to understand. */
static int compare_cycles(const void *a, const void *b)
{
	const struct wait_cycle *x = a, *y = b;

	if (x->proved != y->proved)
		return x->proved ? -1 : 1;
	if (x->count != y->count)
		return x->count < y->count ? -1 : 1;
	return (x->oldest > y->oldest) - (x->oldest < y->oldest);
}

struct error *wait_graph_find_cycles(struct wait_graph *w)
{
	struct error *err = walk_all(w, true, NULL);

	if (!err)
		err = find_suspicions(w);
	if (!err)
		err = begin_with_the_oldest(w);
	if (!err && w->cycle_count)
		qsort(w->cycles, w->cycle_count, sizeof(*w->cycles), compare_cycles);
	return err;
}

void wait_graph_confirm_cycles(struct wait_graph *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->cycle_count; i++) {
		struct wait_cycle *c = &w->cycles[i];
		bool stood = true;

		for (size_t k = 0; k < c->count; k++)
			stood &= !w->goroutines[c->steps[k].goroutine].changed;
		if (stood)
			w->cycles[n++] = *c;
		else
			free(c->steps);
	}
	w->cycle_count = n;
}
