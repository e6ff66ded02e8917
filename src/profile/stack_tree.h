/*
 * Stacks as a tree of common callers: node 0 is the root above all stacks, a node's parent has a
 * smaller number than the node. The caller chooses the keys: functions, or lines of source.
 */
#ifndef PROFILE_STACK_TREE_H
#define PROFILE_STACK_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct stack_node {
	uint32_t parent;
	uint32_t key;
	uint64_t self; /* for the caller's use */
};

struct stack_tree {
	struct stack_node *nodes;
	size_t count;
	size_t capacity;
	struct map children; /* parent and key -> node */
};

/* The child of a node with this key, created if it is new; false when there is no memory. The first
 * call creates the root. */
bool stack_tree_child(struct stack_tree *tree, uint32_t parent, uint32_t key, uint32_t *ret);
void stack_tree_release(struct stack_tree *tree);

#define _cleanup_stack_tree_ __attribute__((cleanup(stack_tree_release)))

#endif
