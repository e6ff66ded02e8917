/* The graph of a heap that a target made up: the first two bytes are the number of nodes, and each
 * two that follow are where an edge leads to, of one node after the other. Of up to 64 nodes, the
 * dominators are those of the definition. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "retained/dominators.h"

#define EXACT 64u
#define LARGEST 16384u

/* The edges of node `from`: words at from, from + nodes, from + 2 * nodes ... */
static void make(struct flow_graph *g, const uint16_t *words, size_t count)
{
	g->first = flow_numbers(g->count, 0xff);
	fuzz_require(g->first && flow_graph_reserve(g, count + 1));
	for (uint32_t from = 0; from < g->count; from++) {
		size_t before = g->edge_count;

		for (size_t at = from; at < count; at += g->count)
			g->edges[g->edge_count++] = words[at] % g->count;
		if (g->edge_count == before)
			continue;
		g->first[from] = (uint32_t)before;
		g->edges[g->edge_count - 1] |= FLOW_LAST;
	}
}

static void step(const struct flow_graph *g, uint32_t from, uint64_t *dominators, bool *changed)
{
	size_t at = g->first[from];
	bool more = at != FLOW_NONE && dominators[from];

	for (; more; at++) {
		uint32_t to = g->edges[at] & ~FLOW_LAST;
		uint64_t old = dominators[to], now = dominators[from];

		more = !(g->edges[at] & FLOW_LAST);
		now = (old ? old & now : now) | 1ull << to;
		if (!to)
			continue;
		*changed |= now != old;
		dominators[to] = now;
	}
}

/* A node is dominated by itself, and by what dominates all that lead to it. 0: it is not reached.
 */
static void by_definition(const struct flow_graph *g, uint64_t *dominators)
{
	bool changed = true;

	memset(dominators, 0, EXACT * sizeof(*dominators));
	dominators[0] = 1;
	while (changed) {
		changed = false;
		for (uint32_t from = 0; from < g->count; from++)
			step(g, from, dominators, &changed);
	}
}

static void compare(const struct dominators *d, const uint64_t *expected, uint32_t count)
{
	uint32_t reached = 0;

	for (uint32_t i = 0; i < count; i++)
		reached += expected[i] != 0;
	fuzz_require(d->count == reached);
	for (uint32_t i = 0; i < d->count; i++) {
		uint64_t found = 1;

		for (uint32_t k = i; k; k = d->immediate.items[k])
			found |= 1ull << d->nodes.items[k];
		fuzz_require(found == expected[d->nodes.items[i]]);
	}
}

static void check(struct flow_graph *g)
{
	_cleanup_number_array_ struct number_array before = {0}, places = {0}, sizes = {0};
	_cleanup_dominators_ struct dominators d = {0};
	uint64_t expected[EXACT];
	uint32_t count = g->count;

	if (count <= EXACT)
		by_definition(g, expected);
	fuzz_require(!flow_graph_shortest(g, &before));
	fuzz_require(!dominators_find(g, &d));
	if (count <= EXACT)
		compare(&d, expected, count);
	for (uint32_t i = 1; i < d.count; i++)
		fuzz_require(d.immediate.items[i] < i &&
			     before.items[d.nodes.items[i]] != FLOW_NONE);
	fuzz_require(!dominators_places(&d, &places, &sizes));
	for (uint32_t i = 1; i < d.count; i++)
		fuzz_require(places.items[i] > places.items[d.immediate.items[i]] &&
			     places.items[i] + sizes.items[i] <=
				     places.items[d.immediate.items[i]] +
					     sizes.items[d.immediate.items[i]]);
	fuzz_accepted += d.count > 4;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ uint16_t *words = malloc(size + 2);
	struct flow_graph g = {0};
	size_t count = size / 2;

	fuzz_require(words);
	if (!count)
		return 0;
	memcpy(words, data, count * 2);
	g.count = 1u + words[0] % LARGEST;
	make(&g, words + 1, count - 1);
	check(&g);
	flow_graph_release(&g);
	return 0;
}

/* Of few nodes and of many: rings, lists with ways back, and edges in no order. */
void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	enum { WORDS = 1024 };
	static const uint16_t counts[] = {8, 13, 33, EXACT, 300, 1000};

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		uint16_t words[WORDS] = {(uint16_t)(counts[i] - 1)};

		for (uint32_t k = 1; k < WORDS; k++)
			words[k] = (uint16_t)(k < counts[i] ? k : k * k * 40503u >> 7);
		emit(arg, words, sizeof(words));
		emit(arg, words, 2 * counts[i] + 40);
	}
}
