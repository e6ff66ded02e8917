#include "retained/flow_graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define FIRST_ROOM 1024u

bool flow_graph_reserve(struct flow_graph *g, size_t edges)
{
	size_t room = g->edge_capacity + g->edge_capacity / 4;
	uint32_t *items;

	if (edges <= g->edge_capacity)
		return true;
	if (edges > FLOW_MOST_EDGES)
		return false;
	room = room < edges ? edges + FIRST_ROOM : room;
	items = realloc(g->edges, room * sizeof(*items));
	if (!items)
		return false;
	g->edges = items;
	g->edge_capacity = room;
	return true;
}

void flow_graph_release(struct flow_graph *g)
{
	free(g->first);
	free(g->edges);
	*g = (struct flow_graph){0};
}

struct error *flow_graph_shortest(const struct flow_graph *g, uint32_t **ret)
{
	_cleanup_free_ uint32_t *before = malloc(((size_t)g->count + 1) * sizeof(*before));
	_cleanup_free_ uint32_t *queue = malloc(((size_t)g->count + 1) * sizeof(*queue));
	uint32_t done = 0, count = 1;

	if (!before || !queue)
		return &error_no_memory;
	memset(before, 0xff, ((size_t)g->count + 1) * sizeof(*before));
	queue[0] = 0;
	while (done < count) {
		uint32_t node = queue[done++];
		size_t at = g->first[node];
		bool more = at != FLOW_NONE;

		for (; more; at++) {
			uint32_t to = g->edges[at] & ~FLOW_LAST;

			more = !(g->edges[at] & FLOW_LAST);
			if (!to || before[to] != FLOW_NONE)
				continue;
			before[to] = node;
			queue[count++] = to;
		}
	}
	*ret = take_ptr(before);
	return NULL;
}
