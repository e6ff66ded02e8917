/*
 * The dominator tree of a graph: node A dominates node B if every way from node 0 to B goes through
 * A. If A goes away, so does all that A dominates.
 *
 * The algorithm is that of Lengauer and Tarjan with path compression alone, O(m log n) for any
 * graph. Nodes are known by the order in which a depth-first search finds them. Memory: 32 bytes
 * for each node and 4 for each edge at most.
 */
#ifndef RETAINED_DOMINATORS_H
#define RETAINED_DOMINATORS_H

#include "retained/flow_graph.h"

struct dominators {
	uint32_t count;
	uint32_t *nodes;     /* by number: the node of the graph */
	uint32_t *numbers;   /* by node: its number; FLOW_NONE: it is not reached */
	uint32_t *immediate; /* by number: the number of its immediate dominator; 0 of number 0 */
	/* By number: where the edges that lead to it begin in `sources`; one more at the end. */
	uint32_t *first_source;
	uint32_t *sources; /* numbers */
};

/* The edges of the graph are freed as soon as they are not needed any more. A dominator has a
 * smaller number than all that it dominates. */
struct error *dominators_find(struct flow_graph *g, struct dominators *ret) must_check;
void dominators_release(struct dominators *d);
#define _cleanup_dominators_ __attribute__((cleanup(dominators_release)))

/* By number: the sum of the sizes of all that it dominates, itself included. `sizes` has the sizes
 * by number, and becomes the sums. */
void dominators_sum(const struct dominators *d, uint64_t *sizes);

/* By number: its first child, and the next child of the same parent; 0: none. Children are in the
 * order of their numbers. The caller frees both. */
struct error *dominators_children(const struct dominators *d, uint32_t **ret_first,
				  uint32_t **ret_next) must_check;

#endif
