/*
 * What each object of a heap is. Types come from the variables that lead to it, from the memory of
 * objects that name their type, and from interfaces, whose first word does. They go on from there:
 * a field of a known type says what the object is to which it leads.
 *
 * A type counts before another if it fits the size of the object: so a pointer to the first field
 * of a structure does not take it for that field.
 */
#ifndef RETAINED_OBJECT_TYPES_H
#define RETAINED_OBJECT_TYPES_H

#include "retained/equal_strings.h"
#include "retained/object_graph.h"

/* By rank: the number of the type. The caller frees *ret. `strings` counts those that are found. */
struct error *object_types_find(struct object_graph *g, struct runtime_types *types,
				struct equal_strings *strings, uint32_t **ret) must_check;

#endif
