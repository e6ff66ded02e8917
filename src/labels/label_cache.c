#include "labels/label_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

/* From so many on qsort() is faster. */
enum { MANY_CHECKS = 64 };

struct known_labels {
	uint64_t pointer;
	uint32_t id;
	uint32_t pieces;
	uint32_t bytes;
	/* For the current check. */
	bool checked;
	bool differs;
	uint8_t rest[] __attribute__((aligned(8))); /* the pieces, then their bytes */
};

/* A piece that is read again. */
struct label_check {
	struct plan_piece piece;
	struct known_labels *known;
	const uint8_t *expected;
};

static struct label_piece *known_pieces(struct known_labels *k)
{
	return (struct label_piece *)k->rest;
}

static uint8_t *known_memory(struct known_labels *k)
{
	return k->rest + k->pieces * sizeof(struct label_piece);
}

void label_trail_add(struct label_trail *trail, uint64_t address, const void *bytes, size_t size)
{
	if (trail->pieces == LABEL_TRAIL_PIECES || size > LABEL_TRAIL_BYTES - trail->bytes) {
		trail->too_long = true;
		return;
	}
	if (!size)
		return;
	trail->piece[trail->pieces++] = (struct label_piece){address, size};
	memcpy(trail->memory + trail->bytes, bytes, size);
	trail->bytes += size;
}

static struct known_labels **slot(struct label_cache *cache, uint64_t pointer)
{
	return &cache->slots[hash_u64(pointer) >> 20 & (LABEL_CACHE_SLOTS - 1)];
}

static struct known_labels *find(struct label_cache *cache, uint64_t pointer)
{
	struct known_labels *k = cache->slots ? *slot(cache, pointer) : NULL;

	return k && k->pointer == pointer ? k : NULL;
}

static struct known_labels *known_create(uint64_t pointer, const struct label_trail *trail,
					 uint32_t id)
{
	size_t pieces = trail->pieces * sizeof(trail->piece[0]);
	struct known_labels *k = malloc(sizeof(*k) + pieces + trail->bytes);

	if (!k)
		return NULL;
	*k = (struct known_labels){.pointer = pointer,
				   .id = id,
				   .pieces = trail->pieces,
				   .bytes = trail->bytes};
	memcpy(known_pieces(k), trail->piece, pieces);
	memcpy(known_memory(k), trail->memory, trail->bytes);
	return k;
}

void label_cache_keep(struct label_cache *cache, uint64_t pointer, const struct label_trail *trail,
		      uint32_t id)
{
	struct known_labels **place;

	if (!cache->slots)
		cache->slots = calloc(LABEL_CACHE_SLOTS, sizeof(struct known_labels *));
	if (!cache->slots)
		return;
	place = slot(cache, pointer);
	free(*place);
	*place = trail->too_long ? NULL : known_create(pointer, trail, id);
}

static bool add_checks(struct label_cache *cache, struct known_labels *k)
{
	const uint8_t *expected = known_memory(k);

	if (!array_reserve(&cache->checks, &cache->check_capacity, cache->check_count + k->pieces))
		return false;
	for (uint32_t i = 0; i < k->pieces; i++) {
		const struct label_piece *p = &known_pieces(k)[i];

		cache->checks[cache->check_count++] =
			(struct label_check){{p->address, p->size, 0}, k, expected};
		expected += p->size;
	}
	k->checked = true;
	k->differs = false;
	return true;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct label_check *x = a, *y = b;

	return (x->piece.address > y->piece.address) - (x->piece.address < y->piece.address);
}

static void sort_checks(struct label_cache *cache)
{
	struct label_check *checks = cache->checks;

	if (cache->check_count > MANY_CHECKS) {
		qsort(checks, cache->check_count, sizeof(*checks), compare_addresses);
		return;
	}
	for (size_t i = 1; i < cache->check_count; i++) {
		struct label_check c = checks[i];
		size_t k = i;

		for (; k && checks[k - 1].piece.address > c.piece.address; k--)
			checks[k] = checks[k - 1];
		checks[k] = c;
	}
}

/* Reads all pieces, each page once. */
static struct error *read_checks(struct label_cache *cache, struct target *t, size_t *ret_bytes)
{
	sort_checks(cache);
	plan_reset(&cache->plan);
	for (size_t i = 0; i < cache->check_count; i++)
		if (!plan_merge(&cache->plan, &cache->checks[i].piece, 0))
			return &error_no_memory;
	if (!array_reserve(&cache->memory, &cache->memory_capacity, cache->plan.bytes + 1))
		return &error_no_memory;
	return plan_read(&cache->plan, t, cache->memory, ret_bytes);
}

static void compare(struct label_cache *cache, size_t read)
{
	for (size_t i = 0; i < cache->check_count; i++) {
		struct label_check *c = &cache->checks[i];

		if ((size_t)c->piece.offset + c->piece.size > read ||
		    memcmp(cache->memory + c->piece.offset, c->expected, c->piece.size) != 0)
			c->known->differs = true;
	}
}

struct error *label_cache_check(struct label_cache *cache, struct target *t,
				const uint64_t *pointers, size_t count, uint32_t *ret,
				bool *ret_known)
{
	size_t read = 0;
	struct error *err = NULL;

	cache->check_count = 0;
	for (size_t i = 0; i < count; i++) {
		struct known_labels *k = find(cache, pointers[i]);

		if (k && !k->checked && !add_checks(cache, k))
			return &error_no_memory;
	}
	if (cache->check_count)
		err = read_checks(cache, t, &read);
	if (!err)
		compare(cache, read);
	for (size_t i = 0; i < count; i++) {
		struct known_labels *k = find(cache, pointers[i]);

		ret_known[i] = !err && k && !k->differs;
		if (ret_known[i])
			ret[i] = k->id;
	}
	for (size_t i = 0; i < cache->check_count; i++)
		cache->checks[i].known->checked = false;
	return err;
}

void label_cache_release(struct label_cache *cache)
{
	for (size_t i = 0; cache->slots && i < LABEL_CACHE_SLOTS; i++)
		free(cache->slots[i]);
	free(cache->slots);
	free(cache->checks);
	free(cache->memory);
	plan_release(&cache->plan);
	*cache = (struct label_cache){0};
}
