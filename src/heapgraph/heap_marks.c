#include "heapgraph/heap_marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "heapgraph/heap_roots.h"

#define MAX_MISSES (1u << 20)
#define MAX_FROM_G 64

struct heap_marks {
	struct target *t;
	const struct image *img;
	const struct golayout *lay;
	struct heap_marks_options options;
	struct memory_variables variables;
	struct object_spans spans;
	struct heap_objects objects;
	uint64_t *marked;
	uint64_t *pending; /* it is marked, and its pointers are to be followed */
	uint32_t *queue;   /* a ring of numbers of spans */
	size_t queue_first;
	size_t queue_count;
	uint64_t *misses; /* words that lead to where no span was */
	size_t miss_count;
	size_t miss_capacity;
	uint64_t low, high; /* of all spans */
	uint64_t marked_bytes;
	bool is_kept;   /* what is marked is noted, too */
	uint64_t *kept; /* numbers of objects */
	size_t kept_count;
	size_t kept_capacity;
	bool failed; /* there was no memory to note one */
	struct heap_marks_info info;
};

static bool bit_get(const uint64_t *bits, uint64_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static void bit_set(uint64_t *bits, uint64_t i)
{
	bits[i / 64] |= 1ull << i % 64;
}

static void bit_clear(uint64_t *bits, uint64_t i)
{
	bits[i / 64] &= ~(1ull << i % 64);
}

/* ---- opening ---- */

static struct error *must_check make_bits(const struct object_spans *spans, uint64_t **ret_marked,
					  uint64_t **ret_pending, uint32_t **ret_queue)
{
	size_t words = spans->objects / 64 + 1;

	*ret_marked = calloc(words, sizeof(uint64_t));
	*ret_pending = calloc(words, sizeof(uint64_t));
	*ret_queue = calloc(spans->count + 1, sizeof(uint32_t));
	return *ret_marked && *ret_pending && *ret_queue ? NULL : &error_no_memory;
}

static void find_bounds(struct heap_marks *m)
{
	const struct object_spans *s = &m->spans;

	m->low = s->count ? s->items[0].start : 0;
	/* The heap grows by an arena at a time. */
	m->high =
		s->count ? s->items[s->count - 1].end + (uint64_t)HEAP_CHUNK_PAGES * HEAP_PAGE : 0;
}

struct error *heap_marks_open(struct target *t, const struct image *img, const struct golayout *lay,
			      const struct heap_marks_options *options, struct heap_marks **ret)
{
	_cleanup_heap_marks_ struct heap_marks *m = calloc(1, sizeof(*m));
	struct error *err;

	if (!m)
		return &error_no_memory;
	m->t = t;
	m->img = img;
	m->lay = lay;
	m->options = *options;
	err = memory_variables_find(img, lay, &m->variables);
	if (!err)
		err = object_spans_read(t, lay, &m->variables, options->stop, &m->spans);
	if (!err)
		err = heap_objects_open(t, img, lay, m->variables.heap, &m->objects);
	if (!err)
		err = make_bits(&m->spans, &m->marked, &m->pending, &m->queue);
	if (err)
		return err;
	find_bounds(m);
	*ret = take_ptr(m);
	return NULL;
}

void heap_marks_close(struct heap_marks *m)
{
	if (!m)
		return;
	object_spans_release(&m->spans);
	heap_objects_release(&m->objects);
	free(m->marked);
	free(m->pending);
	free(m->queue);
	free(m->misses);
	free(m->kept);
	free(m);
}

/* ---- marking ---- */

static void enqueue(struct heap_marks *m, struct object_span *span)
{
	if (span->is_queued)
		return;
	span->is_queued = true;
	m->queue[(m->queue_first + m->queue_count++) % m->spans.count] =
		(uint32_t)(span - m->spans.items);
}

/* Without memory for it, what the word leads to counts as unread. */
static void add_miss(struct heap_marks *m, uint64_t address)
{
	if (address < m->low || address >= m->high || target_stands_still(m->t) ||
	    m->miss_count >= MAX_MISSES || object_spans_find(&m->spans, address) ||
	    !array_reserve(&m->misses, &m->miss_capacity, m->miss_count + 1))
		return;
	m->misses[m->miss_count++] = address;
}

static void mark(struct heap_marks *m, struct heap_object o)
{
	uint64_t number = heap_object_number(o);

	bit_set(m->marked, number);
	m->marked_bytes += o.span->object_size;
	if (!m->is_kept)
		return;
	if (!array_reserve(&m->kept, &m->kept_capacity, m->kept_count + 1))
		m->failed = true;
	else
		m->kept[m->kept_count++] = number;
}

void heap_marks_add(struct heap_marks *m, uint64_t address)
{
	struct heap_object o;

	if (!object_spans_object(&m->spans, address, &o)) {
		add_miss(m, address);
		return;
	}
	if (bit_get(m->marked, heap_object_number(o)))
		return;
	mark(m, o);
	if (o.span->no_scan)
		return;
	bit_set(m->pending, heap_object_number(o));
	enqueue(m, o.span);
}

static void add_word(void *arg, uint64_t slot, uint64_t value)
{
	heap_marks_add(arg, value);
}

static struct heap_visit adding(struct heap_marks *m)
{
	return (struct heap_visit){add_word, m};
}

static bool wanted(void *arg, struct heap_object object, const uint8_t *bytes, size_t size)
{
	struct heap_marks *m = arg;
	uint64_t number = heap_object_number(object);

	if (!bit_get(m->pending, number))
		return false;
	bit_clear(m->pending, number);
	return !m->options.opaque || !m->options.opaque(m->options.arg, object, bytes, size);
}

static size_t dequeue(struct heap_marks *m, struct object_span **spans)
{
	size_t n = 0;

	while (m->queue_count && n < HEAP_BATCH) {
		struct object_span *span = &m->spans.items[m->queue[m->queue_first]];

		m->queue_first = (m->queue_first + 1) % m->spans.count;
		m->queue_count--;
		span->is_queued = false;
		if (object_span_next(span, m->pending, 0) < span->count)
			spans[n++] = span;
	}
	return n;
}

struct error *heap_marks_drain(struct heap_marks *m)
{
	const struct heap_choice choice = {wanted, m, m->pending};
	const struct heap_visit visit = adding(m);
	struct object_span *spans[HEAP_BATCH];
	struct error *err = NULL;

	while (m->queue_count && !err) {
		size_t n = dequeue(m, spans);

		if (m->options.stop && atomic_load(m->options.stop))
			return &error_stopped;
		err = heap_objects_visit(&m->objects, spans, n, &choice, &visit);
	}
	return err ? err : m->failed ? &error_no_memory : NULL;
}

size_t heap_marks_place(struct heap_marks *m)
{
	m->is_kept = true;
	return m->kept_count;
}

void heap_marks_take_back(struct heap_marks *m, size_t place)
{
	while (m->kept_count > place) {
		uint64_t number = m->kept[--m->kept_count];
		struct heap_object o = object_spans_numbered(&m->spans, number);

		bit_clear(m->marked, number);
		bit_clear(m->pending, number);
		m->marked_bytes -= o.span->object_size;
	}
}

/* ---- roots ---- */

struct error *heap_marks_add_globals(struct heap_marks *m)
{
	const struct heap_visit visit = adding(m);

	return heap_globals_visit(m->t, m->img, m->lay, &visit);
}

/* The runtime marks what such an object refers to, and not the object. */
static void keep_object(void *arg, struct heap_object object)
{
	heap_marks_add(arg, heap_object_address(object));
}

struct error *heap_marks_add_specials(struct heap_marks *m)
{
	const struct heap_specials_visit visit = {.visit = adding(m), .kept = keep_object};
	struct error *err = heap_specials_visit(m->t, m->lay, &m->spans, &visit);

	return err ? err : heap_queues_visit(m->t, m->img, &visit.visit);
}

struct from_g {
	struct heap_marks *m;
	const struct heap_stack *stack;
	uint64_t words[MAX_FROM_G];
	size_t count;
};

static void take_from_g(void *arg, uint64_t slot, uint64_t value)
{
	struct from_g *f = arg;

	if (value < f->stack->lo || value >= f->stack->hi)
		heap_marks_add(f->m, value);
	else if (f->count < MAX_FROM_G)
		f->words[f->count++] = value;
}

struct error *heap_marks_add_goroutine(struct heap_marks *m, uint64_t g,
				       const struct heap_stack *given)
{
	struct heap_stack stack = *given;
	struct from_g from = {.m = m, .stack = given};
	const struct heap_visit visit = {take_from_g, &from};
	const struct heap_stack_visit stack_visit = {.visit = adding(m)};
	struct error *err = NULL;
	struct heap_object o;
	bool ok;

	if (object_spans_object(&m->spans, g, &o)) {
		if (!bit_get(m->marked, heap_object_number(o)))
			mark(m, o);
		bit_clear(m->pending, heap_object_number(o));
		err = heap_objects_visit_one(&m->objects, o, &visit);
	}
	if (err)
		return err;
	stack.from_g = from.words;
	stack.from_g_count = from.count;
	err = heap_stack_visit(m->t, m->img, &stack, &stack_visit, &ok);
	if (!err && !ok)
		m->info.unread += stack.hi > stack.lo ? stack.hi - stack.lo : 0;
	return err;
}

/* ---- what was allocated meanwhile ---- */

static uint64_t count_marked(const struct heap_marks *m, const struct object_span *span)
{
	uint64_t first = span->first, end = first + span->count, n = 0;

	for (uint64_t i = first / 64; span->count && i <= (end - 1) / 64; i++) {
		uint64_t bits = m->marked[i];

		if (i == first / 64)
			bits &= ~0ull << first % 64;
		if (i == end / 64)
			bits &= (1ull << end % 64) - 1;
		n += (uint64_t)__builtin_popcountll(bits);
	}
	return n;
}

/* Spans that are as they were keep the marks of their objects. */
static void carry_over(const struct heap_marks *m, const struct object_spans *spans,
		       uint64_t *marked, uint64_t *pending)
{
	const struct object_spans *old = &m->spans;

	for (size_t i = 0, k = 0; i < old->count && k < spans->count;) {
		const struct object_span *a = &old->items[i], *b = &spans->items[k];

		if (a->start == b->start && a->object_size == b->object_size &&
		    a->count == b->count && a->no_scan == b->no_scan) {
			for (uint64_t n = 0; n < a->count; n++) {
				if (bit_get(m->marked, a->first + n))
					bit_set(marked, b->first + n);
				if (bit_get(m->pending, a->first + n))
					bit_set(pending, b->first + n);
			}
		}
		if (a->start <= b->start)
			i++;
		if (a->start >= b->start)
			k++;
	}
}

struct error *heap_marks_refresh(struct heap_marks *m, bool *ret_more)
{
	_cleanup_object_spans_ struct object_spans spans = {0};
	_cleanup_free_ uint64_t *marked = NULL, *pending = NULL;
	_cleanup_free_ uint32_t *queue = NULL;
	_cleanup_free_ uint64_t *misses = NULL;
	size_t count = m->miss_count;
	struct error *err;

	*ret_more = count != 0;
	if (!count)
		return NULL;
	err = object_spans_read(m->t, m->lay, &m->variables, m->options.stop, &spans);
	if (!err)
		err = make_bits(&spans, &marked, &pending, &queue);
	if (err)
		return err;
	carry_over(m, &spans, marked, pending);
	object_spans_release(&m->spans);
	m->spans = spans;
	spans = (struct object_spans){0};
	free(m->marked);
	free(m->pending);
	free(m->queue);
	m->marked = take_ptr(marked);
	m->pending = take_ptr(pending);
	m->queue = take_ptr(queue);
	m->queue_first = m->queue_count = 0;
	find_bounds(m);
	m->marked_bytes = 0;
	for (size_t i = 0; i < m->spans.count; i++)
		m->marked_bytes +=
			count_marked(m, &m->spans.items[i]) * m->spans.items[i].object_size;
	misses = m->misses;
	m->misses = NULL;
	m->miss_count = m->miss_capacity = 0;
	for (size_t i = 0; i < count; i++)
		heap_marks_add(m, misses[i]);
	*ret_more = m->queue_count != 0;
	return NULL;
}

/* ---- answers ---- */

enum heap_mark heap_marks_of(struct heap_marks *m, uint64_t address)
{
	struct heap_object o;

	if (!object_spans_object(&m->spans, address, &o))
		return HEAP_NO_OBJECT;
	return bit_get(m->marked, heap_object_number(o)) ? HEAP_MARKED : HEAP_UNMARKED;
}

const struct heap_marks_info *heap_marks_info(struct heap_marks *m)
{
	m->info.spans = m->spans.count;
	m->info.heap_bytes = m->spans.bytes;
	m->info.refused = m->spans.refused;
	m->info.marked = 0;
	m->info.marked_bytes = m->marked_bytes;
	m->info.unread += m->objects.unread;
	m->objects.unread = 0;
	for (size_t i = 0; i < m->spans.count; i++)
		m->info.marked += count_marked(m, &m->spans.items[i]);
	return &m->info;
}

uint64_t heap_marks_bytes(const struct heap_marks *m)
{
	return m->marked_bytes;
}
