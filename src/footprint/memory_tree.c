#include "footprint/memory_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

static uint64_t key_of(uint32_t parent, uint32_t name)
{
	return (uint64_t)parent << 32 | name;
}

uint32_t memory_tree_child(struct memory_tree *tree, uint32_t parent, const char *name)
{
	uint32_t id = intern_string(&tree->names, name);
	uint64_t *place = id == INTERN_FAILED ? NULL : map_at(&tree->index, key_of(parent, id));

	if (!place)
		return TREE_NONE;
	if (*place)
		return *place - 1;
	if (tree->count >= TREE_NONE - 1 ||
	    !array_reserve(&tree->items, &tree->capacity, tree->count + 1))
		return TREE_NONE;
	tree->items[tree->count++] = (struct memory_node){.name = id,
							  .parent = parent,
							  .first = TREE_NONE,
							  .next = TREE_NONE};
	*place = tree->count;
	return tree->count - 1;
}

bool memory_tree_add(struct memory_tree *tree, uint32_t parent, const char *name, uint64_t bytes)
{
	uint32_t node = memory_tree_child(tree, parent, name);

	if (node == TREE_NONE)
		return false;
	tree->items[node].bytes += bytes;
	return true;
}

static int by_size(const void *a, const void *b, void *arg)
{
	const struct memory_tree *tree = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (tree->items[x].bytes != tree->items[y].bytes)
		return tree->items[x].bytes < tree->items[y].bytes ? -1 : 1;
	return -strcmp(memory_node_name(tree, x), memory_node_name(tree, y));
}

/* From the last on: children come behind their parents. */
static void add_up(struct memory_tree *tree)
{
	for (size_t i = tree->count; i-- > 1;)
		tree->items[tree->items[i].parent].bytes += tree->items[i].bytes;
}

bool memory_tree_sum(struct memory_tree *tree)
{
	_cleanup_free_ uint32_t *order = calloc(tree->count + 1, sizeof(*order));

	if (!order)
		return false;
	add_up(tree);
	for (size_t i = 0; i < tree->count; i++)
		order[i] = i;
	if (tree->count > 2)
		qsort_r(order + 1, tree->count - 1, sizeof(*order), by_size, tree);
	/* Each is put before the smaller ones. */
	for (size_t i = 1; i < tree->count; i++) {
		struct memory_node *node = &tree->items[order[i]];

		if (!node->bytes)
			continue;
		node->next = tree->items[node->parent].first;
		tree->items[node->parent].first = order[i];
	}
	return true;
}

uint32_t memory_tree_find(const struct memory_tree *tree, const char *const *path, size_t depth)
{
	uint32_t node = tree->count ? TREE_ROOT : TREE_NONE;

	for (size_t i = 0; i < depth && node != TREE_NONE; i++) {
		uint32_t id = intern_find(&tree->names, path[i], strlen(path[i]));
		const uint64_t *place =
			id == INTERN_FAILED ? NULL : map_find(&tree->index, key_of(node, id));

		node = place ? *place - 1 : TREE_NONE;
	}
	return node;
}

void memory_tree_release(struct memory_tree *tree)
{
	free(tree->items);
	intern_release(&tree->names);
	map_release(&tree->index);
	*tree = (struct memory_tree){0};
}
