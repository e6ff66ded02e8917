/*
 * A graph in which all nodes are reached from node 0: nodes are numbers, and edges lead from each
 * node to others. Memory: 4 bytes for each node and for each edge. A large graph, or a large array
 * of numbers, can be put aside into a file for as long as it is not used.
 */
#ifndef RETAINED_FLOW_GRAPH_H
#define RETAINED_FLOW_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "retained/number_array.h"

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
	size_t mapped; /* bytes of the file, in which both arrays are to be read; 0: they are not */
	int file;      /* a copy of it, number + 1; 0: there is none */
};

/* An array of so many numbers and one more, each byte of which is `fill`. It is in large pages
 * where the kernel has them: a walk in no order would else wait for the page tables at each step.
 */
uint32_t *flow_numbers(size_t count, uint8_t fill);
/* The same, and nothing is written to it. */
uint32_t *flow_room(size_t count);

/* Makes room for so many edges in all. It grows by a quarter, and leaves new room untouched. False:
 * no memory, or too many. */
bool flow_graph_reserve(struct flow_graph *g, size_t edges);
void flow_graph_release(struct flow_graph *g);

/* Frees the arrays of a large graph, which has a copy in a file. Where no file can be written, the
 * graph stays in memory. */
void flow_graph_put_aside(struct flow_graph *g);
/* Before single nodes are looked at: only what is read takes memory. */
struct error *flow_graph_map(struct flow_graph *g) must_check;
/* What was read so far of a mapped graph takes no memory any more. */
void flow_graph_forget(const struct flow_graph *g);
/* Before all of it is used. */
struct error *flow_graph_load(struct flow_graph *g) must_check;

/* For each node, the node before it on a shortest way from node 0; FLOW_NONE for node 0. The graph
 * is put aside as soon as it is not needed any more. */
struct error *flow_graph_shortest(struct flow_graph *g, struct number_array *ret) must_check;

#endif
