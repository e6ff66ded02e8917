/* The objects of a heap: its structure, its spans, objects and types, all in one piece of memory.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "heapgraph/heap_objects.h"

/* Where things are in the piece. */
#define BASE 0xc000000000ull
#define LIST (72u << 10)
#define SPANS (76u << 10)
#define TYPES (80u << 10)
#define ARENA_ENTRY (84u << 10)
#define ARENA (88u << 10)
#define OBJECTS (96u << 10)
/* Of the arena that the objects are in: (BASE + 2^47) / 64 MB. */
#define ARENA_NUMBER ((BASE + (1ull << 47)) >> 26)
#define SIZE (128u << 10)
#define STRIDE 256
#define MOST_VISITS (1u << 20)

struct visits {
	size_t count;
	size_t size; /* of the input */
};

static void visit(void *arg, uint64_t slot, uint64_t value)
{
	struct visits *v = arg;

	fuzz_require(slot >= BASE && slot - BASE <= v->size - 8 && slot % 8 == 0);
	fuzz_require(++v->count <= MOST_VISITS);
	fuzz_accepted++;
}

static bool wanted(void *arg, struct heap_object object, const uint8_t *bytes, size_t size)
{
	struct object_spans *spans = arg;
	struct heap_object again;

	fuzz_require(object.index < object.span->count);
	fuzz_require(heap_object_number(object) < spans->objects);
	fuzz_require(object_spans_object(spans, heap_object_address(object), &again));
	fuzz_require(again.span == object.span && again.index == object.index);
	return true;
}

static void visit_all(struct heap_objects *objects, struct object_spans *spans, size_t size)
{
	struct visits visits = {0, size};
	const struct heap_visit how = {visit, &visits};
	const struct heap_choice choice = {wanted, spans};

	for (size_t i = 0; i < spans->count; i++) {
		struct object_span *span = &spans->items[i];

		fuzz_require(!heap_objects_visit(objects, &span, 1, &choice, &how));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char versions[2][16] = {"go1.19.13", "go1.27.2"};
	static const int minors[] = {19, 27};
	_cleanup_object_spans_ struct object_spans spans = {0};
	_cleanup_target_ struct target *t = NULL;
	struct heap_objects objects;
	struct memory_variables variables = {.heap = BASE};
	struct target_range range = {BASE, size, (void *)data};
	int which = size ? data[size - 1] % 2 : 0;
	struct golayout lay = {.minor = minors[which]};
	struct image img = {.machine = MACHINE_AMD64, .info.version = versions[which]};
	struct error *err;

	if (size < LIST)
		return 0;
	lay.n = *golayout_table(minors[which], 99);
	fuzz_require(!target_open_memory(&range, 1, &t));
	err = object_spans_read(t, &lay, &variables, NULL, &spans);
	if (error_dropped(err))
		return 0;
	fuzz_require(!heap_objects_open(t, &img, &lay, variables.heap, &objects));
	visit_all(&objects, &spans, size);
	heap_objects_release(&objects);
	return 0;
}

static void put(uint8_t *bytes, size_t at, uint64_t value, size_t size)
{
	memcpy(bytes + at, &value, size);
}

static void put_span(uint8_t *bytes, const struct golayout_numbers *n, size_t i, uint64_t size,
		     uint8_t class)
{
	size_t at = SPANS + i * STRIDE, narrow = n->span_large_type == GOLAYOUT_ABSENT ? 8 : 2;

	put(bytes, LIST + i * 8, BASE + at, 8);
	put(bytes, at + (size_t)n->span_start, BASE + OBJECTS + i * HEAP_PAGE, 8);
	put(bytes, at + (size_t)n->span_pages, 1, 8);
	put(bytes, at + (size_t)n->span_elements, 8000 / size, narrow);
	put(bytes, at + (size_t)n->span_element_size, size, 8);
	put(bytes, at + (size_t)n->span_class, class, 1);
	put(bytes, at + (size_t)n->span_state, SPAN_IN_USE, 1);
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	static const int minors[] = {19, 27};

	for (int which = 0; which < 2; which++) {
		const struct golayout_numbers *n = golayout_table(minors[which], 99);
		_cleanup_free_ uint8_t *seed = calloc(1, SIZE);

		fuzz_require(seed && n);
		put(seed, (size_t)n->heap_all_spans, BASE + LIST, 8);
		put(seed, (size_t)n->heap_all_spans + 8, 2, 8);
		put(seed, (size_t)n->heap_all_spans + 16, 2, 8);
		put_span(seed, n, 0, 64, 12);
		put_span(seed, n, 1, 1024, 60);
		put(seed, (size_t)n->heap_arenas, BASE + ARENA_ENTRY - ARENA_NUMBER * 8, 8);
		put(seed, ARENA_ENTRY, BASE + ARENA, 8);
		memset(seed + ARENA, 0xff, OBJECTS - ARENA);
		put(seed, TYPES, 64, 8);
		put(seed, TYPES + 8, 24, 8);
		put(seed, TYPES + 32, BASE + TYPES + 48, 8);
		put(seed, TYPES + 48, 7, 8);
		for (size_t i = OBJECTS; i < OBJECTS + 2 * HEAP_PAGE; i += 8)
			put(seed, i, i % 1024 ? BASE + i : BASE + TYPES, 8);
		seed[SIZE - 1] = (uint8_t)which;
		emit(arg, seed, SIZE);
	}
}
