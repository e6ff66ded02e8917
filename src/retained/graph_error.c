/* How much a heap changed while it was read: a part of it is read again, and the words that lead to
 * objects are compared. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "retained/object_graph.h"

/* So many spans are read again, from all over the heap. */
#define SAMPLE 4096u

struct comparing {
	struct object_graph *g;
	uint32_t node; /* the object that is being read; FLOW_NONE: none */
	uint32_t *now; /* what it leads to */
	size_t count;
	size_t capacity;
	uint32_t *then;
	size_t then_count;
	size_t then_capacity;
	uint64_t words, changed;
	bool failed;
};

static int compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static bool take_then(struct comparing *c)
{
	const struct flow_graph *f = &c->g->flow;
	size_t at = f->first[c->node];
	bool more = at != FLOW_NONE;

	c->then_count = 0;
	for (; more; at++) {
		more = !(f->edges[at] & FLOW_LAST);
		if (!array_reserve(&c->then, &c->then_capacity, c->then_count + 1))
			return false;
		c->then[c->then_count++] = f->edges[at] & ~FLOW_LAST;
	}
	return true;
}

/* Both as sets with repetitions: a word that moved has not changed. */
static void end_object(struct comparing *c)
{
	size_t i = 0, k = 0, same = 0, most;

	if (c->node == FLOW_NONE)
		return;
	if (!take_then(c)) {
		c->failed = true;
		return;
	}
	if (c->count)
		qsort(c->now, c->count, sizeof(*c->now), compare_numbers);
	if (c->then_count)
		qsort(c->then, c->then_count, sizeof(*c->then), compare_numbers);
	while (i < c->count && k < c->then_count) {
		bool before = c->now[i]<c->then[k], behind = c->now[i]> c->then[k];

		same += !before && !behind;
		i += !behind;
		k += !before;
	}
	most = c->count > c->then_count ? c->count : c->then_count;
	c->words += most;
	c->changed += most - same;
	c->node = FLOW_NONE;
}

static bool wanted(void *arg, struct heap_object object, const uint8_t *bytes, size_t size)
{
	struct comparing *c = arg;
	uint64_t number = heap_object_number(object);

	end_object(c);
	if (c->failed || !object_graph_reached(c->g, number))
		return false;
	c->node = object_graph_first_node(c->g) + object_graph_rank(c->g, number);
	c->count = 0;
	return true;
}

static bool is_own(const struct comparing *c, struct heap_object o)
{
	const uint64_t *place = map_find(&c->g->waits->by_g, heap_object_address(o));

	return place && c->g->waits->goroutines[*place - 1].alive;
}

static void add_word(void *arg, uint64_t slot, uint64_t value)
{
	struct comparing *c = arg;
	struct heap_object o;
	uint32_t node = FLOW_NONE;

	if (!object_spans_object(&c->g->spans, value, &o) || is_own(c, o))
		return;
	if (object_graph_reached(c->g, heap_object_number(o)))
		node = object_graph_first_node(c->g) +
		       object_graph_rank(c->g, heap_object_number(o));
	if (c->count && c->now[c->count - 1] == node)
		return;
	if (!array_reserve(&c->now, &c->capacity, c->count + 1))
		c->failed = true;
	else
		c->now[c->count++] = node;
}

struct error *object_graph_compare(struct object_graph *g, uint64_t *ret_words,
				   uint64_t *ret_changed)
{
	struct comparing c = {.g = g, .node = FLOW_NONE};
	const struct heap_choice choice = {wanted, &c};
	const struct heap_visit visit = {add_word, &c};
	size_t step = g->spans.count / SAMPLE + 1;
	struct object_span *batch[HEAP_BATCH];
	struct error *err = NULL;
	size_t n = 0;

	for (size_t i = 0; i < g->spans.count && !err; i += step) {
		batch[n++] = &g->spans.items[i];
		if (n < HEAP_BATCH && i + step < g->spans.count)
			continue;
		err = heap_objects_visit(&g->objects, batch, n, &choice, &visit);
		end_object(&c);
		flow_graph_forget(&g->flow);
		n = 0;
	}
	free(c.now);
	free(c.then);
	*ret_words = c.words;
	*ret_changed = c.changed;
	return err ? err : c.failed ? &error_no_memory : NULL;
}
