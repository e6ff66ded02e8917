#include "base/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

struct hash_seed hash_seed;

void hash_set_seed(uint64_t seed)
{
	hash_seed = (struct hash_seed){seed, seed * 0x9e3779b97f4a7c15ull | 1};
}

/* Where the kernel has no getrandom(2), or no randomness so early after boot, there are the 16
 * random bytes that it gives each process. Before other constructors, which may fill maps. */
__attribute__((constructor(1000))) static void draw_seed(void)
{
	const void *given = (const void *)getauxval(AT_RANDOM);

	if (getrandom(&hash_seed, sizeof(hash_seed), GRND_NONBLOCK) != sizeof(hash_seed) && given)
		memcpy(&hash_seed, given, sizeof(hash_seed));
	hash_seed.multiply |= 1;
}

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

static int compare_keys(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

uint64_t *map_sorted_keys(const struct map *map)
{
	uint64_t *keys = map->count ? malloc(map->count * sizeof(*keys)) : NULL;
	size_t count = 0;

	if (!keys)
		return NULL;
	for (size_t i = 0; i < map->capacity; i++)
		if (map->slots[i].key != MAP_NO_KEY)
			keys[count++] = map->slots[i].key;
	qsort(keys, count, sizeof(*keys), compare_keys);
	return keys;
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
