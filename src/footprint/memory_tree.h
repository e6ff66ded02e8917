/*
 * A tree of named amounts of memory. A node that has children has the sum of their bytes.
 *
 * Nodes are added below others, in any order, and summed up once.
 */
#ifndef FOOTPRINT_MEMORY_TREE_H
#define FOOTPRINT_MEMORY_TREE_H

#include "base/intern.h"
#include "base/map.h"

#define TREE_ROOT 0u
#define TREE_NONE UINT32_MAX

struct memory_node {
	uint32_t name; /* in tree->names */
	uint32_t parent;
	uint32_t first; /* child, the largest; TREE_NONE: none. Once the tree is summed up */
	uint32_t next;  /* the next smaller one of the same parent */
	uint64_t bytes;
};

struct memory_tree {
	struct memory_node *items; /* a parent comes before its children; the root first */
	size_t count;
	size_t capacity;
	struct intern names;
	struct map index; /* parent and name -> place + 1 */
};

/* The child of this name, which is made if there is none; TREE_NONE: no memory. The root has no
 * parent: TREE_NONE. */
uint32_t memory_tree_child(struct memory_tree *tree, uint32_t parent, const char *name);
/* Adds bytes to that child. False: no memory. */
bool memory_tree_add(struct memory_tree *tree, uint32_t parent, const char *name, uint64_t bytes);
/* Sums up, and orders children: largest first, then by name. Those without bytes are left out. */
bool memory_tree_sum(struct memory_tree *tree);
void memory_tree_release(struct memory_tree *tree);

static inline const char *memory_node_name(const struct memory_tree *tree, uint32_t node)
{
	return intern_get(&tree->names, tree->items[node].name);
}

/* The node at the end of this path of names from the root on; TREE_NONE: there is none. */
uint32_t memory_tree_find(const struct memory_tree *tree, const char *const *path, size_t depth);

#endif
