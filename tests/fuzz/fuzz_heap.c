/*
 * The heap and the tables of the runtime, made up, with words that are wrong now and then: all that
 * `gospect memory` reads of them. The input's first byte chooses the Go version, the second the
 * architecture; the rest is lies (liar.h).
 */
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "golayout/view.h"
#include "liar.h"
#include "memory/span_marks.h"

#define BASE 0x7f0000000000ull
#define HEAP_PAGES 0xc000000000ull
#define SIZE (1u << 20)
#define SWEEPGEN 8u
#define SPANS 48
#define CHUNKS 5

/* Where things are in the made memory. */
enum {
	HEAP = 0,
	STATS = 128 << 10,
	CONTROLLER = 160 << 10,
	LISTS = 176 << 10, /* gcBitsArenas, persistentChunks, buckhash */
	LIST = 180 << 10,  /* of spans, then of arenas */
	TABLE = 192 << 10, /* where an arena's number leads to */
	SPAN = 512 << 10,
	BITS = 704 << 10,
	CHUNK = 768 << 10,
};

/* The heap is at the bottom of the addresses of arm64: the numbers of its arenas are small. */
#define FIRST_ARENA (HEAP_PAGES / (64ull << 20))

/* Bounded work: reads of one look, and bytes. */
#define MAX_READS 1000000
#define MAX_BYTES (2ull << 30)

struct made {
	uint8_t memory[SIZE];
	struct golayout lay;
	struct memory_variables variables;
	struct target *truth;
};

static void put(struct made *m, uint32_t at, int32_t offset, uint64_t value, size_t size)
{
	if (offset != GOLAYOUT_ABSENT && at + (size_t)offset + size <= SIZE)
		memcpy(m->memory + at + offset, &value, size);
}

static void put_slice(struct made *m, uint32_t at, int32_t offset, uint64_t items, uint64_t count)
{
	if (offset == GOLAYOUT_ABSENT)
		return;
	put(m, at, offset, items, 8);
	put(m, at, offset + 8, count, 8);
	put(m, at, offset + 16, count, 8);
}

static void make_span(struct made *m, uint32_t i)
{
	const struct golayout_numbers *n = &m->lay.n;
	uint32_t at = SPAN + i * 1024;
	size_t narrow = n->span_large_type == GOLAYOUT_ABSENT ? 8 : 2;

	put(m, LIST, (int32_t)i * 8, BASE + at, 8);
	put(m, at, n->span_start, HEAP_PAGES + i * SPAN_PAGE, 8);
	put(m, at, n->span_pages, 1, 8);
	put(m, at, n->span_elements, 128, narrow);
	put(m, at, n->span_element_size, 64, 8);
	put(m, at, n->span_alloc_count, i, 2);
	put(m, at, n->span_class, 5 << 1 | (i & 1), 1);
	put(m, at, n->span_state, i % 8 == 7 ? SPAN_MANUAL : SPAN_IN_USE, 1);
	put(m, at, n->span_sweepgen, i % 3 ? SWEEPGEN : SWEEPGEN - 2, 4);
	put(m, at, n->span_mark_bits, BASE + BITS, 8);
}

static void make_lists(struct made *m)
{
	const struct golayout_numbers *n = &m->lay.n;

	put_slice(m, HEAP, n->heap_all_spans, BASE + LIST, SPANS);
	put_slice(m, HEAP, n->heap_arena_list, BASE + LIST + 4096, 2);
	put(m, LIST, 4096, FIRST_ARENA, 8);
	put(m, LIST, 4096 + 8, FIRST_ARENA + 1, 8);
	put(m, HEAP, n->heap_arenas, BASE + TABLE, 8);
	put(m, TABLE, FIRST_ARENA * 8, BASE + BITS, 8);
	for (int32_t i = 0; i < 5; i++)
		put_slice(m, HEAP, n->heap_summary + i * 24, BASE + (64u << 20) * (i + 1), 1 << i);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		uint64_t next = i + 1 < CHUNKS ? BASE + CHUNK + (i + 1) * 64 : 0;

		put(m, CHUNK + i * 64, 0, next, 8);
		put(m, CHUNK + i * 64, 8, next, 8);
	}
	for (uint32_t i = 1; i < 5; i++)
		put(m, LISTS, 8 * (int32_t)i, i & 1 ? BASE + CHUNK : 0, 8);
	put(m, LISTS, 64, BASE + CHUNK, 8);
	put(m, LISTS, 72, BASE + (32u << 20), 8);
}

static struct made *made_for(size_t kind)
{
	static struct made made[GOLAYOUT_MAX_MINOR - GOLAYOUT_MIN_MINOR + 1];
	struct made *m = &made[kind];
	struct target_range range = {BASE, SIZE, m->memory};
	int minor = GOLAYOUT_MIN_MINOR + (int)kind;

	if (m->truth)
		return m;
	m->lay = (struct golayout){.minor = minor, .n = *golayout_table(minor, 99)};
	m->variables = (struct memory_variables){.heap = BASE + HEAP,
						 .stats = BASE + STATS,
						 .controller = BASE + CONTROLLER,
						 .gc_bits = BASE + LISTS,
						 .persistent_chunks = BASE + LISTS + 64,
						 .bucket_table = BASE + LISTS + 72};
	put(m, HEAP, m->lay.n.heap_sweepgen, SWEEPGEN, 4);
	for (uint32_t i = 0; i < SPANS; i++)
		make_span(m, i);
	make_lists(m);
	fuzz_require(!target_open_memory(&range, 1, &m->truth));
	return m;
}

/* What is taken for good must be in order, within bounds, and lie beside each other. */
static void check_spans(const struct heap_spans *spans)
{
	for (size_t i = 0; i < spans->count; i++) {
		const struct heap_span *s = &spans->items[i];

		fuzz_require(s->size && s->start + s->size <= 1ull << 48);
		fuzz_require(!i || s->start >= s[-1].start + s[-1].size);
		fuzz_require(s->state != SPAN_IN_USE ||
			     (uint64_t)s->elements * s->element_size <= s->size);
		fuzz_require(s->state != SPAN_IN_USE || s->allocated <= s->elements);
		fuzz_require(heap_spans_find(spans, s->start + s->size - 1) == s);
	}
}

static void check_ranges(const struct runtime_memory *memory)
{
	for (size_t i = 0; i < memory->range_count; i++) {
		const struct memory_range *r = &memory->ranges[i];

		fuzz_require(r->start < r->end && r->end <= 1ull << 48);
		fuzz_require(!i || r->start >= r[-1].end);
	}
}

static bool look(struct target *t, enum machine machine, const struct made *m)
{
	_cleanup_heap_spans_ struct heap_spans spans = {0};
	_cleanup_runtime_memory_ struct runtime_memory memory = {0};
	_cleanup_free_ uint16_t *garbage = NULL;

	if (error_dropped(heap_spans_read(t, &m->lay, &m->variables, NULL, &spans)))
		return false;
	check_spans(&spans);
	if (error_dropped(runtime_memory_read(t, machine, &m->lay, &m->variables, &spans, &memory)))
		return false;
	check_ranges(&memory);
	garbage = calloc(spans.count + 1, sizeof(*garbage));
	fuzz_require(garbage);
	if (error_dropped(span_garbage_count(t, &m->lay, &spans, &memory, garbage)))
		return false;
	for (size_t i = 0; i < spans.count; i++)
		fuzz_require(garbage[i] <= spans.items[i].allocated);
	return spans.count > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct made *m;
	struct liar liar;

	if (size < 8)
		return 0;
	m = made_for(data[0] % (GOLAYOUT_MAX_MINOR - GOLAYOUT_MIN_MINOR + 1));
	liar_init(&liar, m->truth, data + 8, size - 8);
	fuzz_accepted += look(&liar.base, data[1] & 1 ? MACHINE_AMD64 : MACHINE_ARM64, m);
	fuzz_require(liar.reads < MAX_READS && liar.bytes < MAX_BYTES);
	return 0;
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	for (uint8_t kind = 0; kind <= GOLAYOUT_MAX_MINOR - GOLAYOUT_MIN_MINOR; kind++) {
		uint8_t seed[8 + 64 * 16] = {kind};

		for (uint16_t i = 0; i < 64; i++) {
			uint8_t *lie = seed + 8 + 16 * i;
			uint16_t skip = 23 + 7 * i;

			memcpy(lie, &skip, sizeof(skip));
			lie[3] = i % 5;
			lie[4] = 8 * i;
			lie[8] = i;
		}
		emit(arg, seed, sizeof(seed));
		emit(arg, seed, 8);
	}
}
