/*
 * The heap of a program as a graph: node 0 is above all roots; the roots are the nodes after it;
 * then come the objects that they lead to, by address. Each object is read once, while the target
 * runs on.
 *
 * A pointer to the g of a goroutine counts only if it belongs to that goroutine. Otherwise the
 * runtime's list of all goroutines, and the waiters of a channel, would hold what each goroutine
 * holds.
 */
#ifndef RETAINED_OBJECT_GRAPH_H
#define RETAINED_OBJECT_GRAPH_H

#include <stdatomic.h>

#include "heapgraph/heap_objects.h"
#include "retained/flow_graph.h"
#include "retained/root_list.h"
#include "waits/wait_graph.h"

/* An object whose memory names its type. */
struct typed_object {
	uint32_t object;
	uint32_t type; /* in the type table */
};

/* An object that the runtime sampled for its heap profile: a runtime.bucket has where it was
 * allocated. */
struct sampled_object {
	uint32_t object;
	uint64_t bucket;
};

/* Of 64 objects. */
struct reached_objects {
	uint64_t bits;   /* one for each: it is reached */
	uint32_t before; /* how many are reached before these */
};

struct object_graph {
	struct target *t;
	const struct image *img;
	const struct golayout *lay;
	const atomic_int *stop;
	struct wait_graph *waits; /* the goroutines */
	struct object_spans spans;
	struct heap_objects objects;
	struct root_list roots;
	struct type_table *table;
	struct reached_objects *reached;
	uint32_t count; /* of reached objects */
	uint64_t bytes; /* of them */
	struct flow_graph flow;
	struct typed_object *typed;
	size_t typed_count;
	size_t typed_capacity;
	struct sampled_object *sampled;
	size_t sampled_count;
	size_t sampled_capacity;
	uint64_t missed; /* words that led to where no span was: it was made meanwhile */
	uint64_t unread; /* bytes */
};

struct object_graph_options {
	const atomic_int *stop; /* ERROR_STOPPED once it is not 0; NULL: never */
};

struct error *object_graph_read(struct target *t, const struct image *img,
				const struct golayout *lay, struct runtime_types *types,
				struct type_table *table,
				const struct object_graph_options *options,
				struct object_graph *ret) must_check;
void object_graph_release(struct object_graph *g);
#define _cleanup_object_graph_ __attribute__((cleanup(object_graph_release)))

/* Of so many words that were compared, how many changed since the graph was read. Before the edges
 * are freed. */
struct error *object_graph_compare(struct object_graph *g, uint64_t *ret_words,
				   uint64_t *ret_changed) must_check;

static inline bool object_graph_reached(const struct object_graph *g, uint64_t object)
{
	return g->reached[object / 64].bits >> object % 64 & 1;
}

/* The place among all reached objects. */
static inline uint32_t object_graph_rank(const struct object_graph *g, uint64_t object)
{
	const struct reached_objects *r = &g->reached[object / 64];
	uint64_t before = r->bits & ((1ull << object % 64) - 1);

	return r->before + (uint32_t)__builtin_popcountll(before);
}

/* The node of the first object: those before it are roots. */
static inline uint32_t object_graph_first_node(const struct object_graph *g)
{
	return (uint32_t)g->roots.count + 1;
}

/* The object with this rank. */
struct heap_object object_graph_ranked(struct object_graph *g, uint32_t rank);

/* Calls `visit` for each reached object in order of their addresses. */
void object_graph_each(struct object_graph *g,
		       void (*visit)(void *arg, uint32_t rank, const struct object_span *span,
				     uint32_t index),
		       void *arg);

/* Where the value of an object begins: Go 1.22 and later keep the type of some before it. */
static inline uint64_t object_graph_header(const struct object_graph *g,
					   const struct object_span *span)
{
	return g->objects.layout == HEAP_IN_SPAN && span->size_class && !span->no_scan &&
			       span->object_size > 512
		       ? 8
		       : 0;
}

#endif
