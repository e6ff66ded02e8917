/*
 * A graph in which all nodes are reached from node 0: nodes are numbers, and edges lead from each
 * node to others. Memory: 4 bytes for each node and for each edge. A large graph can be put aside
 * into a file for as long as it is not used.
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
	size_t mapped; /* bytes of a file, in which both arrays are; 0: they are in memory */
	int file;      /* it is put aside in this file, number + 1: both arrays are NULL; 0: no */
};

/* An array of so many numbers and one more, each byte of which is `fill`. It is in large pages
 * where the kernel has them: a walk in no order would else wait for the page tables at each step.
 */
uint32_t *flow_numbers(size_t count, uint8_t fill);

/* Makes room for so many edges in all. It grows by a quarter, and leaves new room untouched. False:
 * no memory, or too many. */
bool flow_graph_reserve(struct flow_graph *g, size_t edges);
void flow_graph_release(struct flow_graph *g);

/* Frees the arrays of a large graph, which are in a file meanwhile. Where no file can be written,
 * the graph stays in memory. */
void flow_graph_put_aside(struct flow_graph *g);
/* Before it is used again. */
struct error *flow_graph_bring_back(struct flow_graph *g) must_check;

/* For each node, the node before it on a shortest way from node 0; FLOW_NONE for node 0. The caller
 * frees *ret. */
struct error *flow_graph_shortest(const struct flow_graph *g, uint32_t **ret) must_check;

#endif
