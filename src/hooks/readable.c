#include "hooks/readable.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Goroutines whose addresses show where the heap is. */
#define KNOWN_ADDRESSES 64

/* Memory without a file, as a heap is. Linux may show the name that Go gives it (Go 1.25). */
static bool is_anonymous(const struct target_map *map)
{
	return map->readable && map->writable && !map->inode &&
	       (!map->path[0] || !strncmp(map->path, "[anon:", 6));
}

/* Addresses of g's, from all of the list. */
static struct error *must_check find_known_addresses(struct target *t, const struct golayout *lay,
						     uint64_t ret[KNOWN_ADDRESSES],
						     size_t *ret_count)
{
	uint64_t count, at, step;
	struct error *err = target_read_u64(t, lay->v.allglen, &count);

	*ret_count = 0;
	if (!err)
		err = target_read_u64(t, lay->v.allgptr, &at);
	step = err ? 1 : count / KNOWN_ADDRESSES + 1;
	for (uint64_t i = 0; !err && i < count && *ret_count < KNOWN_ADDRESSES; i += step)
		err = target_read_u64(t, at + i * sizeof(at), &ret[(*ret_count)++]);
	return err;
}

static bool holds_one(const struct target_map *map, const uint64_t *addresses, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (addresses[i] >= map->start && addresses[i] < map->end)
			return true;
	return false;
}

/* From the i-th mapping on: the heap, which may be several mappings side by side, or one of the
 * program's, with its variables that are 0 at first. `*i` is moved to the last. false: neither. */
static bool take_range(const struct target_maps *maps, const struct target_map *text,
		       const uint64_t *known_heap_addresses, size_t count, size_t *i,
		       struct agent_readable *ret)
{
	const struct target_map *map = &maps->items[*i];
	bool heap = false, file;

	file = map->readable && map->inode && map->inode == text->inode &&
	       map->device == text->device;
	if (!file && !is_anonymous(map))
		return false;
	*ret = (struct agent_readable){map->start, map->end};
	heap = holds_one(map, known_heap_addresses, count);
	while (*i + 1 < maps->count && maps->items[*i + 1].start == ret->end &&
	       is_anonymous(&maps->items[*i + 1])) {
		map = &maps->items[++*i];
		heap |= holds_one(map, known_heap_addresses, count);
		ret->end = map->end;
	}
	return file || heap;
}

/* What the agent sees is whole at every moment. The target may write there, too: each word is
 * loaded once, and that is what is checked and used. */
static void publish(struct agent_shared *shared, const struct agent_readable *range)
{
	uint64_t n = __atomic_load_n(&shared->readable_count, __ATOMIC_RELAXED);

	for (uint64_t i = 0; i < n && i < AGENT_MAX_READABLE; i++) {
		struct agent_readable *known = &shared->readable[i];

		if (__atomic_load_n(&known->start, __ATOMIC_RELAXED) != range->start)
			continue;
		if (__atomic_load_n(&known->end, __ATOMIC_RELAXED) < range->end)
			__atomic_store_n(&known->end, range->end, __ATOMIC_RELAXED);
		return;
	}
	if (n >= AGENT_MAX_READABLE)
		return;
	shared->readable[n] = *range;
	__atomic_store_n(&shared->readable_count, n + 1, __ATOMIC_RELEASE);
}

/* ---- the runtime's own list ---- */

#define CHUNK_BYTES (4ull << 20) /* pallocChunkBytes: the step in which a heap grows */
#define SCAN_BYTES (1u << 20)
#define SCAN_MOST (256ull << 20)

/* runtime.addrRanges, without its last word. */
struct addr_ranges {
	uint64_t ranges, length, capacity;
	uint64_t total_bytes;
};

struct search {
	struct target *t;
	const uint64_t *known_heap_addresses;
	size_t count;
	uint64_t found; /* 0: not yet */
};

static bool is_plausible(const struct addr_ranges *a)
{
	return a->length && a->length <= AGENT_MAX_HEAP_RANGES && a->length <= a->capacity &&
	       a->capacity <= 1 << 16 && a->ranges && !(a->ranges & 7) && a->total_bytes &&
	       !(a->total_bytes & (CHUNK_BYTES - 1));
}

static bool holds_all(const struct search *s, const struct agent_readable *ranges, size_t n)
{
	for (size_t i = 0; i < s->count; i++) {
		size_t k = 0;

		while (k < n && (s->known_heap_addresses[i] < ranges[k].start ||
				 s->known_heap_addresses[i] >= ranges[k].end))
			k++;
		if (k == n)
			return false;
	}
	return s->count;
}

static bool is_heap(const struct search *s, const struct addr_ranges *a)
{
	struct agent_readable ranges[AGENT_MAX_HEAP_RANGES];
	uint64_t sum = 0;

	if (!is_plausible(a) ||
	    error_dropped(target_read(s->t, a->ranges, ranges, a->length * sizeof(*ranges))))
		return false;
	for (size_t i = 0; i < a->length; i++) {
		if (ranges[i].start >= ranges[i].end)
			return false;
		sum += ranges[i].end - ranges[i].start;
	}
	return sum == a->total_bytes && holds_all(s, ranges, a->length);
}

/* The array is published last, and withdrawn first: a reader that finds the same array before and
 * after has read its capacity. */
static void publish_heap(struct agent_shared *shared, const struct addr_ranges *a)
{
	if (__atomic_load_n(&shared->heap_array, __ATOMIC_RELAXED) == a->ranges &&
	    __atomic_load_n(&shared->heap_capacity, __ATOMIC_RELAXED) == a->capacity)
		return;
	__atomic_store_n(&shared->heap_array, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&shared->heap_capacity, a->capacity, __ATOMIC_SEQ_CST);
	__atomic_store_n(&shared->heap_array, a->ranges, __ATOMIC_SEQ_CST);
}

/* The runtime may be changing the list just now: one that does not add up is left for the next
 * time. */
static void update_heap(struct target *t, const uint64_t *known_heap_addresses, size_t count,
			struct agent_shared *shared)
{
	const struct search s = {.t = t,
				 .known_heap_addresses = known_heap_addresses,
				 .count = count};
	uint64_t list = __atomic_load_n(&shared->heap_ranges, __ATOMIC_RELAXED);
	struct addr_ranges a;

	if (list && !error_dropped(target_read(t, list, &a, sizeof(a))) && is_heap(&s, &a))
		publish_heap(shared, &a);
}

/* The first of several: pages.inUse is before the scavenger's copy of it (Go 1.17 and 1.18). */
static struct error *must_check search_in(struct search *s, uint64_t start, uint64_t end)
{
	_cleanup_free_ uint8_t *bytes = malloc(SCAN_BYTES);
	struct addr_ranges a;

	if (!bytes)
		return &error_no_memory;
	end = end - start > SCAN_MOST ? start + SCAN_MOST : end;
	for (uint64_t at = start; !s->found && at + sizeof(a) <= end;) {
		size_t n = end - at < SCAN_BYTES ? end - at : SCAN_BYTES;
		struct error *err = target_read(s->t, at, bytes, n);

		if (err)
			return err == &error_fault ? NULL : err;
		for (size_t i = 0; !s->found && i + sizeof(a) <= n; i += 8) {
			memcpy(&a, bytes + i, sizeof(a));
			if (is_heap(s, &a))
				s->found = at + i;
		}
		at += n - sizeof(a) + 8;
	}
	return NULL;
}

struct error *readable_update(struct target *t, const struct image *img, const struct golayout *lay,
			      struct agent_shared *shared)
{
	_cleanup_maps_ struct target_maps maps = {0};
	uint64_t known_heap_addresses[KNOWN_ADDRESSES];
	const struct target_map *text;
	struct agent_readable range;
	size_t count = 0;
	struct error *err = target_maps(t, &maps);

	if (!err)
		err = find_known_addresses(t, lay, known_heap_addresses, &count);
	if (err)
		return err;
	text = target_maps_find(&maps, img->functions.text);
	for (size_t i = 0; text && i < maps.count; i++)
		if (take_range(&maps, text, known_heap_addresses, count, &i, &range))
			publish(shared, &range);
	update_heap(t, known_heap_addresses, count, shared);
	return NULL;
}

struct error *readable_find_heap(struct target *t, const struct image *img,
				 const struct golayout *lay, struct agent_shared *shared)
{
	_cleanup_maps_ struct target_maps maps = {0};
	uint64_t known_heap_addresses[KNOWN_ADDRESSES];
	struct search s = {.t = t, .known_heap_addresses = known_heap_addresses};
	const struct target_map *text;
	struct error *err = target_maps(t, &maps);

	if (!err)
		err = find_known_addresses(t, lay, known_heap_addresses, &s.count);
	text = err ? NULL : target_maps_find(&maps, img->functions.text);
	for (size_t i = 0; !err && text && i < maps.count && !s.found; i++) {
		const struct target_map *map = &maps.items[i];
		uint64_t start = map->start, end = map->end;

		if (!map->writable || map->inode != text->inode || map->device != text->device)
			continue;
		while (i + 1 < maps.count && maps.items[i + 1].start == end &&
		       is_anonymous(&maps.items[i + 1]))
			end = maps.items[++i].end;
		err = search_in(&s, start, end);
	}
	__atomic_store_n(&shared->heap_ranges, s.found, __ATOMIC_RELAXED);
	if (!err)
		update_heap(t, known_heap_addresses, s.count, shared);
	return err;
}
