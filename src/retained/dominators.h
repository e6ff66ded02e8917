/*
 * The dominator tree of a graph: node A dominates node B if every way from node 0 to B goes through
 * A. If A goes away, so does all that A dominates.
 *
 * The algorithm is that of Lengauer and Tarjan with path compression alone, O(m log n) for any
 * graph. Nodes are known by the order in which a depth-first search finds them. Memory, if files
 * can be written: while the search runs, 4 bytes for each node, and the graph; then 4 for each
 * node, 12 more for each to which several edges lead, and 8 for each edge that leads back or
 * across.
 */
#ifndef RETAINED_DOMINATORS_H
#define RETAINED_DOMINATORS_H

#include "retained/flow_graph.h"

struct dominators {
	uint32_t count;
	struct number_array nodes;     /* by number: the node of the graph */
	struct number_array immediate; /* by number: the number of its immediate dominator; 0 of
					  number 0 */
};

/* A dominator has a smaller number than all that it dominates. The graph is put aside
 * (flow_graph_put_aside) as soon as it is not needed any more. One that has a copy in a file
 * already is used up. */
struct error *dominators_find(struct flow_graph *g, struct dominators *ret) must_check;
void dominators_release(struct dominators *d);
#define _cleanup_dominators_ __attribute__((cleanup(dominators_release)))

/* By node of a graph of `nodes` nodes: its number; FLOW_NONE: it is not reached. The caller frees
 * *ret. */
struct error *dominators_numbers(const struct dominators *d, uint32_t nodes,
				 uint32_t **ret) must_check;

/* An order in which each node comes right before all that it dominates: by number, its place, and
 * how many nodes begin there, itself and what it dominates. */
struct error *dominators_places(const struct dominators *d, struct number_array *ret_places,
				struct number_array *ret_sizes) must_check;

#endif
