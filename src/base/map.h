/*
 * A hash map from a 64-bit key to a 64-bit value: open addressing, grows at 3/4. MAP_NO_KEY marks a
 * free slot; as a key it is taken for the one below it.
 *
 * Keys are often a target's choice: addresses, ids, names. If it knew the hash, it could choose
 * keys that all belong in one slot, and each search would take as long as the map. So the hash has
 * a seed that each process draws when it begins. Where a key lies in a map, and in which order
 * slots come, differs from run to run: nothing that is shown may depend on it.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_NO_KEY UINT64_MAX

struct map_slot {
	uint64_t key;
	uint64_t value;
};

struct map {
	struct map_slot *slots;
	size_t count;
	size_t capacity; /* a power of two, or 0 */
};

struct hash_seed {
	uint64_t add, multiply;
};
/* Drawn before main(). */
extern struct hash_seed hash_seed;
/* Makes hashes the same in each run, for fuzzers. To be called before the first map exists. */
void hash_set_seed(uint64_t seed);

/* XORs both halves of the product: the low bits of the lower half do not depend on the key's high
 * bits, whatever the seed. */
static inline uint64_t hash_multiply(uint64_t x)
{
	unsigned __int128 product = (unsigned __int128)x * hash_seed.multiply;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/*
 * A well mixed word: for keys of one's own tables. Multiplied twice: after once, keys that follow
 * each other, as goids do, lie close together with one seed in 150.
 */
static inline uint64_t hash_u64(uint64_t x)
{
	return hash_multiply(hash_multiply(x ^ hash_seed.add));
}

static inline uint64_t map_key(uint64_t key)
{
	return key - (key == MAP_NO_KEY);
}

/* Where the key is, or would be; the map has slots. For the map's own functions. */
static inline struct map_slot *map_slot_of(const struct map *map, uint64_t key)
{
	size_t i = hash_u64(key) & (map->capacity - 1);

	while (map->slots[i].key != key && map->slots[i].key != MAP_NO_KEY)
		i = (i + 1) & (map->capacity - 1);
	return &map->slots[i];
}

/* A pointer to the value, which is 0 if the key is new; NULL when there is no memory. It is valid
 * until the next call. */
uint64_t *map_at(struct map *map, uint64_t key);
/* NULL when the key is not there. */
static inline const uint64_t *map_find(const struct map *map, uint64_t key)
{
	const struct map_slot *slot = map->capacity ? map_slot_of(map, map_key(key)) : NULL;

	return slot && slot->key != MAP_NO_KEY ? &slot->value : NULL;
}
/* The keys in ascending order, for output that depends on the order; the caller frees them. NULL:
 * no memory, or no key. */
uint64_t *map_sorted_keys(const struct map *map);
/* Invalidates pointers to other values. */
void map_remove(struct map *map, uint64_t key);
/* Keeps its memory. */
void map_clear(struct map *map);
void map_release(struct map *map);
#define _cleanup_map_ __attribute__((cleanup(map_release)))

uint64_t hash_bytes(const void *bytes, size_t n);

#endif
