#include "perfdata/map_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct map_list *map_list_share(struct map_list *list)
{
	if (list)
		list->users++;
	return list;
}

void map_list_release(struct map_list *list)
{
	if (!list || --list->users)
		return;
	free(list->items);
	free(list->order);
	free(list);
}

static bool copy_items(const struct map_list *from, struct map_list *to)
{
	if (!array_reserve(&to->items, &to->capacity, from->count) ||
	    !array_reserve(&to->order, &to->order_capacity, from->live))
		return false;
	if (from->count)
		memcpy(to->items, from->items, from->count * sizeof(*to->items));
	if (from->live)
		memcpy(to->order, from->order, from->live * sizeof(*to->order));
	to->count = from->count;
	to->live = from->live;
	return true;
}

/* Makes the list an unshared one. */
static bool make_own(struct map_list **list)
{
	struct map_list *old = *list, *own;

	if (old && old->users == 1)
		return true;
	own = calloc(1, sizeof(*own));
	if (!own)
		return false;
	own->users = 1;
	if (old && !copy_items(old, own)) {
		map_list_release(own);
		return false;
	}
	map_list_release(old);
	*list = own;
	return true;
}

/* The index in `order` of the first mapping that ends behind the address. */
static size_t first_behind(const struct map_list *l, uint64_t address)
{
	size_t low = 0, high = l->live;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (l->items[l->order[middle]].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Half of the items are gone: moves the others together. */
static bool compact(struct map_list *l, size_t *seen)
{
	uint32_t *moved = calloc(l->count, sizeof(*moved));
	size_t kept = 0, kept_seen = 0;

	if (!moved)
		return false;
	for (size_t i = 0; i < l->count; i++) {
		if (!l->items[i].end)
			continue;
		moved[i] = kept;
		kept_seen += i < *seen;
		l->items[kept++] = l->items[i];
	}
	for (size_t i = 0; i < l->live; i++)
		l->order[i] = moved[l->order[i]];
	free(moved);
	l->count = kept;
	*seen = kept_seen;
	return true;
}

/* Inserts the mapping, and removes those that it covers. */
static void put_in_order(struct map_list *l, const struct recorded_map *map, uint32_t number)
{
	size_t from = first_behind(l, map->start), to = from;

	for (; to < l->live && l->items[l->order[to]].start < map->end; to++)
		l->items[l->order[to]].end = 0;
	memmove(l->order + from + 1, l->order + to, (l->live - to) * sizeof(*l->order));
	l->order[from] = number;
	l->live -= to - from;
	l->live++;
}

bool map_list_add(struct map_list **list, const struct recorded_map *map, size_t *seen)
{
	struct map_list *l;

	if (!make_own(list))
		return false;
	l = *list;
	if (l->count > 64 && l->count > 2 * l->live && !compact(l, seen))
		return false;
	if (!array_reserve(&l->items, &l->capacity, l->count + 1) ||
	    !array_reserve(&l->order, &l->order_capacity, l->live + 1))
		return false;
	l->items[l->count] = *map;
	put_in_order(l, map, l->count++);
	return true;
}
