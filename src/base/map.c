#include "base/map.h"

#include <stdlib.h>
#include <string.h>

static bool map_grow(struct map *map)
{
	struct map bigger = {.capacity = map->capacity ? map->capacity * 2 : 64};

	bigger.slots = malloc(bigger.capacity * sizeof(*bigger.slots));
	if (!bigger.slots)
		return false;
	memset(bigger.slots, 0xff, bigger.capacity * sizeof(*bigger.slots));
	for (size_t i = 0; i < map->capacity; i++)
		if (map->slots[i].key != MAP_NO_KEY)
			*map_slot_of(&bigger, map->slots[i].key) = map->slots[i];
	bigger.count = map->count;
	free(map->slots);
	*map = bigger;
	return true;
}

uint64_t *map_at(struct map *map, uint64_t key)
{
	struct map_slot *slot;

	if (map->count >= map->capacity / 4 * 3 && !map_grow(map))
		return NULL;
	slot = map_slot_of(map, map_key(key));
	if (slot->key == MAP_NO_KEY) {
		*slot = (struct map_slot){map_key(key), 0};
		map->count++;
	}
	return &slot->value;
}

/* Closes the gap: each slot behind it, up to the next free one, moves into it unless that would put
 * it before the place where its search begins. */
void map_remove(struct map *map, uint64_t key)
{
	struct map_slot *gap = map->capacity ? map_slot_of(map, map_key(key)) : NULL;
	size_t mask = map->capacity - 1, hole, i;

	if (!gap || gap->key == MAP_NO_KEY)
		return;
	hole = gap - map->slots;
	for (i = (hole + 1) & mask; map->slots[i].key != MAP_NO_KEY; i = (i + 1) & mask) {
		size_t home = hash_u64(map->slots[i].key) & mask;

		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		map->slots[hole] = map->slots[i];
		hole = i;
	}
	map->slots[hole].key = MAP_NO_KEY;
	map->count--;
}

void map_clear(struct map *map)
{
	for (size_t i = 0; i < map->capacity; i++)
		map->slots[i].key = MAP_NO_KEY;
	map->count = 0;
}

void map_release(struct map *map)
{
	free(map->slots);
	*map = (struct map){0};
}

uint64_t hash_bytes(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint64_t h = n, word;

	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&word, p, 8);
		h = hash_u64(h ^ word);
	}
	word = 0;
	if (n)
		memcpy(&word, p, n);
	return hash_u64(h ^ word);
}
