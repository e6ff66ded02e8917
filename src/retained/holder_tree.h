/*
 * The dominator tree, merged: objects of one type that are held by the same are one holder. A type
 * is on the way from a root once: a list of a million elements is one holder, not a million deep.
 */
#ifndef RETAINED_HOLDER_TREE_H
#define RETAINED_HOLDER_TREE_H

#include "base/intern.h"
#include "retained/dominators.h"
#include "retained/object_graph.h"

enum holder_kind {
	HOLDER_ALL, /* the first holder, above all others */
	HOLDER_GLOBAL,
	HOLDER_GOROUTINE, /* those that began with one function */
	HOLDER_VARIABLE,
	HOLDER_FRAME, /* words of a frame that belong to no known variable */
	HOLDER_FINALIZER,
	HOLDER_REGISTERS,
	HOLDER_SEVERAL, /* above what no single root holds */
	HOLDER_OBJECTS,
};

#define HOLDER_NONE UINT32_MAX

struct holder {
	enum holder_kind kind;
	uint32_t name; /* in the tree's names */
	uint32_t parent;
	uint32_t first; /* child, that with most retained bytes; HOLDER_NONE: none */
	uint32_t next;
	uint32_t example; /* the node of one of its objects or roots, whose dominator is of `parent`
			   */
	uint32_t above;   /* the node of that dominator */
	uint64_t count;   /* of objects, or roots */
	uint64_t bytes;   /* of its own objects */
	uint64_t retained;
};

/* Objects with one name of their type. */
struct type_sum {
	uint32_t name;
	uint64_t count;
	uint64_t bytes;
	uint64_t retained; /* by all of them together */
};

struct holder_tree {
	struct intern names;
	struct holder *items; /* a parent comes before its children */
	size_t count;
	size_t capacity;
	struct map index;
	struct number_array
		of; /* by number of an object or root in the dominator tree: its holder */
	struct type_sum *types;
	size_t type_count;
	size_t type_capacity;
	struct map sums;      /* name of a type -> its place in `types` + 1, while it is made */
	uint32_t *type_names; /* by number of a type: its name; 0: no object has it */
};

struct holder_input {
	struct object_graph *graph;
	const struct dominators *dominators;
	const struct number_array *types; /* by rank of the objects */
	struct runtime_types *runtime_types;
};

struct error *holder_tree_make(const struct holder_input *in, struct holder_tree *ret) must_check;
void holder_tree_release(struct holder_tree *tree);

/* The name of an object's type. */
static inline const char *holder_tree_type(const struct holder_tree *tree, uint32_t type)
{
	return intern_get(&tree->names, tree->type_names[type]);
}

static inline const char *holder_name(const struct holder_tree *tree, uint32_t holder)
{
	return intern_get(&tree->names, tree->items[holder].name);
}

#endif
