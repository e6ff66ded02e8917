/*
 * The code that a process has mapped at one point of a recording. A forked child shares its
 * parent's list until one of the two maps something.
 */
#ifndef PERFDATA_MAP_LIST_H
#define PERFDATA_MAP_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No process has more mappings of code; callers must not exceed it. */
#define MAP_LIST_MOST 65536u

/* A mapping of code. */
struct recorded_map {
	uint64_t start;
	uint64_t end; /* 0: something else is mapped there now */
	uint64_t offset;
	const char *path;
};

struct map_list {
	struct recorded_map *items; /* in the order of the recording */
	size_t count;
	size_t capacity;
	uint32_t *order; /* indices of current items, by address */
	size_t live;
	size_t order_capacity;
	size_t users;
};

/*
 * Adds a mapping and removes those that it overlaps. Makes the list if *list is NULL, and copies it
 * if it is shared. *seen is how many items the user has processed; it is adjusted. False when there
 * is no memory.
 */
bool map_list_add(struct map_list **list, const struct recorded_map *map, size_t *seen);
/* Adds a user. NULL stays NULL. */
struct map_list *map_list_share(struct map_list *list);
void map_list_release(struct map_list *list);

#endif
