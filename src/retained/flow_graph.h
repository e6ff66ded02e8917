/*
 * A graph in which all nodes are reached from node 0: nodes are numbers, and edges lead from each
 * node to others. Memory: 4 bytes for each node and for each edge.
 */
#ifndef RETAINED_FLOW_GRAPH_H
#define RETAINED_FLOW_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define FLOW_NONE UINT32_MAX
/* The last edge of a node has this bit. */
#define FLOW_LAST (1u << 31)
#define FLOW_MOST_NODES (FLOW_LAST - 2)
#define FLOW_MOST_EDGES (UINT32_MAX - 2)

struct flow_graph {
	uint32_t count;  /* of nodes */
	uint32_t *first; /* of each node: the place of its first edge; FLOW_NONE: it has none */
	uint32_t *edges;
	size_t edge_count;
	size_t edge_capacity;
};

/* Makes room for so many edges in all. It grows by a quarter, and leaves new room untouched. False:
 * no memory, or too many. */
bool flow_graph_reserve(struct flow_graph *g, size_t edges);
void flow_graph_release(struct flow_graph *g);

/* For each node, the node before it on a shortest way from node 0; FLOW_NONE for node 0. The caller
 * frees *ret. */
struct error *flow_graph_shortest(const struct flow_graph *g, uint32_t **ret) must_check;

#endif
