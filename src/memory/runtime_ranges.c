/*
 * The runtime reserves most of these tables for all addresses that a process can have, and uses
 * little of them: what is resident says how much.
 */
#include "memory/runtime_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "golayout/view.h"

/* malloc.go, for 64-bit Linux: arenas of 64 MB, all of them in one table. */
#define ARENA_BYTES (64ull << 20)
#define ARENAS (1u << 22)
#define AMD64_ARENA_BASE 0xffff800000000000ull
#define MOST_ARENAS (1u << 18) /* of the heap: 16 TB */

/* mpagealloc.go: five levels of summaries, and chunks of 4 MB with 128 bytes each, in groups. */
#define SUMMARY_LEVELS 5
#define SUMMARY_BYTES 8
#define MOST_SUMMARIES (1ull << 28)
#define CHUNK_GROUPS (1u << 13)
#define CHUNK_GROUP_BYTES (128ull << 13)

/* mgcscavenge.go: a byte for 8 chunks up to Go 1.20, then a word for each. */
#define FIRST_WITH_SCAVENGE_WORDS 21

/* gcBitsArenas (mheap.go): a lock and four lists of chunks, whose second word leads on. */
#define GC_BITS_CHUNK (64u << 10)
#define GC_BITS_LISTS 4
/* persistentChunks (malloc.go): the first word of a chunk leads on. */
#define PERSISTENT_CHUNK (256u << 10)

#define MOST_CHUNKS (1u << 18)
#define MOST_ADDRESS (1ull << 48)

struct slice {
	uint64_t items, length, capacity;
};

struct adding {
	struct target *t;
	enum machine machine;
	const struct golayout *lay;
	struct runtime_memory *m;
};

static struct error *must_check add(struct adding *a, enum memory_kind kind, uint64_t start,
				    uint64_t size)
{
	struct runtime_memory *m = a->m;

	if (!start || !size || start >= MOST_ADDRESS || size > MOST_ADDRESS - start)
		return NULL;
	if (!array_reserve(&m->ranges, &m->range_capacity, m->range_count + 1))
		return &error_no_memory;
	m->ranges[m->range_count++] = (struct memory_range){start, start + size, kind, 0};
	return NULL;
}

static struct error *must_check corrupt(const char *what, uint64_t value)
{
	return error_format(ERROR_CORRUPT,
			    "the target's heap is corrupt: %s (0x%lx); take a core file and "
			    "report this",
			    what, value);
}

/* ---- arenas ---- */

/* The index counts from the lowest address; amd64's are signed (arenaBase of mheap.go). */
static uint64_t arena_address(enum machine machine, uint64_t index)
{
	return index * ARENA_BYTES + (machine == MACHINE_ARM64 ? 0 : AMD64_ARENA_BASE);
}

static struct error *must_check add_arena(struct adding *a, uint64_t table, uint64_t index)
{
	uint64_t metadata = 0;
	struct error *err;

	if (index >= ARENAS)
		return corrupt("the number of an arena", index);
	err = add(a, MEMORY_ARENA, arena_address(a->machine, index), ARENA_BYTES);
	if (err || error_dropped(target_read_u64(a->t, table + index * 8, &metadata)))
		return err;
	if (a->m->range_count)
		a->m->ranges[a->m->range_count - 1].metadata = metadata;
	return add(a, MEMORY_ARENA_METADATA, metadata, a->lay->n.arena_size);
}

/* A list of numbers of arenas. Its array moves when it grows; the old one stays. */
static struct error *must_check add_arenas(struct adding *a, uint64_t table, uint64_t header)
{
	_cleanup_free_ uint64_t *numbers = NULL;
	struct slice list = {0};
	struct error *err = header ? target_read(a->t, header, &list, sizeof(list)) : NULL;

	if (err || !list.length)
		return err;
	if (list.length > MOST_ARENAS)
		return corrupt("more arenas than fit its memory", list.length);
	numbers = calloc(list.length, sizeof(*numbers));
	if (!numbers)
		return &error_no_memory;
	err = target_read(a->t, list.items, numbers, list.length * sizeof(*numbers));
	for (size_t i = 0; !err && i < list.length; i++)
		err = add_arena(a, table, numbers[i]);
	return err;
}

static struct error *must_check add_all_arenas(struct adding *a, uint64_t heap)
{
	const struct golayout_numbers *n = &a->lay->n;
	uint64_t table;
	struct error *err = target_read_u64(a->t, heap_at_arenas(n, heap), &table);

	if (!err)
		err = add(a, MEMORY_ARENA_INDEX, table, ARENAS * sizeof(uint64_t));
	if (!err)
		err = add_arenas(a, table, heap_at_arena_list(n, heap));
	return err ? err : add_arenas(a, table, heap_at_user_arena_list(n, heap));
}

/* ---- the page allocator ---- */

static struct error *must_check add_slice(struct adding *a, enum memory_kind kind, uint64_t header,
					  uint64_t bytes)
{
	struct slice s = {0};
	struct error *err = header ? target_read(a->t, header, &s, sizeof(s)) : NULL;

	if (err || s.capacity > MOST_SUMMARIES)
		return err;
	return add(a, kind, s.items, s.capacity * bytes);
}

static struct error *must_check add_page_bits(struct adding *a, uint64_t table)
{
	_cleanup_free_ uint64_t *groups = calloc(CHUNK_GROUPS, sizeof(*groups));
	struct error *err;

	if (!groups)
		return &error_no_memory;
	err = target_read(a->t, table, groups, CHUNK_GROUPS * sizeof(*groups));
	for (size_t i = 0; !err && i < CHUNK_GROUPS; i++)
		err = add(a, MEMORY_PAGE_BITS, groups[i], CHUNK_GROUP_BYTES);
	return err;
}

static struct error *must_check add_page_allocator(struct adding *a, uint64_t heap)
{
	const struct golayout_numbers *n = &a->lay->n;
	bool has_words = a->lay->minor >= FIRST_WITH_SCAVENGE_WORDS;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < SUMMARY_LEVELS; i++)
		err = add_slice(a, MEMORY_SUMMARY,
				heap_at_summary(n, heap) + i * sizeof(struct slice), SUMMARY_BYTES);
	if (!err)
		err = add_slice(a, MEMORY_SCAVENGE_INDEX, heap_at_scavenge_chunks(n, heap),
				has_words ? 8 : 1);
	return err ? err : add_page_bits(a, heap_at_chunks(n, heap));
}

/* ---- lists of chunks ---- */

/* Follows a list; `next` is where a chunk has the address of the next. */
static struct error *must_check add_chunks(struct adding *a, enum memory_kind kind, uint64_t head,
					   uint64_t next, uint64_t size)
{
	_cleanup_map_ struct map seen = {0};
	uint64_t chunk = head;
	struct error *err = NULL;

	while (!err && chunk) {
		uint64_t *known = map_at(&seen, chunk);

		if (!known)
			return &error_no_memory;
		if (*known || seen.count > MOST_CHUNKS)
			return corrupt("a list of chunks leads in a circle", chunk);
		*known = 1;
		err = add(a, kind, chunk, size);
		if (!err)
			err = target_read_u64(a->t, chunk + next, &chunk);
	}
	return err;
}

static struct error *must_check add_gc_bits(struct adding *a, uint64_t lists)
{
	uint64_t heads[1 + GC_BITS_LISTS] = {0};
	struct error *err = lists ? target_read(a->t, lists, heads, sizeof(heads)) : NULL;

	for (size_t i = 1; !err && i <= GC_BITS_LISTS; i++)
		err = add_chunks(a, MEMORY_GC_BITS, heads[i], sizeof(uint64_t), GC_BITS_CHUNK);
	return err;
}

static struct error *must_check add_lists(struct adding *a, const struct memory_variables *v)
{
	uint64_t head = 0, table = 0;
	struct error *err = add_gc_bits(a, v->gc_bits);

	if (!err && v->persistent_chunks)
		err = target_read_u64(a->t, v->persistent_chunks, &head);
	if (!err)
		err = add_chunks(a, MEMORY_PERSISTENT, head, 0, PERSISTENT_CHUNK);
	if (!err && v->bucket_table)
		err = target_read_u64(a->t, v->bucket_table, &table);
	return err ? err : add(a, MEMORY_BUCKET_TABLE, table, BUCKET_TABLE_BYTES);
}

/* ---- all ---- */

static int by_start(const void *a, const void *b)
{
	const struct memory_range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* A chunk may move to another list while these are read, and is in both then. */
static void drop_repeated(struct runtime_memory *m)
{
	size_t n = 0;

	if (m->range_count)
		qsort(m->ranges, m->range_count, sizeof(*m->ranges), by_start);
	for (size_t i = 0; i < m->range_count; i++) {
		struct memory_range *r = &m->ranges[i];

		if (n && r->start < m->ranges[n - 1].end)
			r->start = m->ranges[n - 1].end;
		if (r->start < r->end)
			m->ranges[n++] = *r;
	}
	m->range_count = n;
}

/* Memory that cannot be read, as in a truncated core file, is of no known kind. */
static struct error *must_check if_readable(struct error *err)
{
	if (!err || err->code != ERROR_FAULT)
		return err;
	error_destroy(err);
	return NULL;
}

struct error *runtime_ranges_add(struct target *t, enum machine machine, const struct golayout *lay,
				 const struct memory_variables *v, const struct heap_spans *spans,
				 struct runtime_memory *m)
{
	struct adding a = {t, machine, lay, m};
	struct error *err = if_readable(add_all_arenas(&a, v->heap));

	if (!err)
		err = if_readable(add_page_allocator(&a, v->heap));
	if (!err)
		err = if_readable(add_lists(&a, v));
	if (!err)
		err = add(&a, MEMORY_SPAN_LIST, spans->list, spans->list_bytes);
	if (!err)
		drop_repeated(m);
	return err;
}
