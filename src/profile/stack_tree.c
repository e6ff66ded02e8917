#include "profile/stack_tree.h"

#include <stdlib.h>

#include "base/array.h"

bool stack_tree_child(struct stack_tree *tree, uint32_t parent, uint32_t key, uint32_t *ret)
{
	uint64_t *place;

	if (tree->count >= UINT32_MAX - 1 ||
	    !array_reserve(&tree->nodes, &tree->capacity, tree->count + 2))
		return false;
	if (!tree->count)
		tree->nodes[tree->count++] = (struct stack_node){0};
	place = map_at(&tree->children, (uint64_t)parent << 32 | key);
	if (!place)
		return false;
	if (!*place) {
		*place = tree->count;
		tree->nodes[tree->count++] = (struct stack_node){parent, key, 0};
	}
	*ret = *place;
	return true;
}

void stack_tree_release(struct stack_tree *tree)
{
	free(tree->nodes);
	map_release(&tree->children);
	*tree = (struct stack_tree){0};
}
