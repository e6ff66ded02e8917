/*
 * The code that a process has mapped, as far as a recording has come. A child that was forked has
 * its parent's list, until one of the two maps something.
 */
#ifndef PERFDATA_MAP_LIST_H
#define PERFDATA_MAP_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No process has more ranges of code: callers must not exceed it. */
#define MAP_LIST_MOST 65536u

/* A stretch of code. */
struct recorded_map {
	uint64_t start;
	uint64_t end; /* 0: something else lies there by now */
	uint64_t offset;
	const char *path;
};

struct map_list {
	struct recorded_map *items; /* in the order of coming */
	size_t count;
	size_t capacity;
	uint32_t *order; /* of `items`, by address: those that are still there */
	size_t live;
	size_t order_capacity;
	size_t users;
};

/*
 * Adds a mapping to the list, which is made when *list is NULL and copied when it has another user
 * as well; what lay at that place is gone. *seen counts how many of the items its user has looked
 * at, and stays right. False when there is no memory.
 */
bool map_list_add(struct map_list **list, const struct recorded_map *map, size_t *seen);
/* For another user. NULL stays NULL. */
struct map_list *map_list_share(struct map_list *list);
void map_list_release(struct map_list *list);

#endif
