/*
 * The heap's resident bytes, span by span. Of a span that is partly resident, the objects are taken
 * to be what is: they were written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "footprint/division.h"

/* Functions with a node of their own. */
#define MOST_FUNCTIONS 200

/* Takes at most `want` of what is left. */
static uint64_t take(uint64_t *left, uint64_t want)
{
	uint64_t taken = want < *left ? want : *left;

	*left -= taken;
	return taken;
}

/* The nodes that spans are added to. */
struct nodes {
	struct memory_tree *tree;
	uint32_t objects, garbage, slots, heap, stacks, runtime;
	uint64_t frames; /* resident bytes of goroutines' frames */
	bool failed;     /* no memory */
};

static void add(struct nodes *n, uint32_t parent, const char *name, uint64_t bytes)
{
	if (bytes && (parent == TREE_NONE || !memory_tree_add(n->tree, parent, name, bytes)))
		n->failed = true;
}

static struct footprint_class *class_of(struct footprint *f, const struct heap_span *s)
{
	uint64_t size = s->size_class ? s->element_size : 0;

	for (size_t i = 0; i < f->size_count; i++)
		if (f->sizes[i].object_bytes == size)
			return &f->sizes[i];
	if (!array_reserve(&f->sizes, &f->size_capacity, f->size_count + 1))
		return NULL;
	f->sizes[f->size_count++] = (struct footprint_class){.object_bytes = size};
	return &f->sizes[f->size_count - 1];
}

static void class_name(const struct heap_span *s, char ret[64])
{
	if (s->size_class)
		snprintf(ret, 64, "objects of %lu bytes", s->element_size);
	else
		snprintf(ret, 64, "large objects");
}

static void divide_objects(struct nodes *n, const struct heap_span *s, uint64_t garbage,
			   uint64_t resident)
{
	uint64_t left = resident;
	char name[64];

	class_name(s, name);
	add(n, n->objects, name, take(&left, (s->allocated - garbage) * s->element_size));
	add(n, n->garbage, name, take(&left, garbage * s->element_size));
	add(n, n->slots, name, take(&left, (s->elements - s->allocated) * s->element_size));
	add(n, n->heap, "ends of spans (bitmaps, unused)", left);
}

static void count_class(struct footprint *f, struct nodes *n, const struct heap_span *s,
			uint64_t garbage, uint64_t resident)
{
	struct footprint_class *class = class_of(f, s);

	if (!class) {
		n->failed = true;
		return;
	}
	class->spans++;
	class->span_bytes += s->size;
	class->objects += s->allocated;
	class->garbage += garbage;
	class->slots += s->elements - s->allocated;
	class->resident += resident;
}

static void divide_stacks(struct nodes *n, const struct span_stacks *use, uint64_t resident)
{
	uint64_t left = resident;

	n->frames += take(&left, use->frames);
	add(n, n->stacks, "unused parts of goroutines' stacks",
	    take(&left, use->stacks - use->frames));
	add(n, n->stacks, "of the runtime's threads", take(&left, use->threads));
	add(n, n->stacks, "free, for new goroutines", left);
}

static void divide_spans(const struct parts *p, struct nodes *n)
{
	for (size_t i = 0; i < p->spans.count && !n->failed; i++) {
		const struct heap_span *s = &p->spans.items[i];
		uint64_t resident = p->resident[i];

		if (s->state == SPAN_IN_USE) {
			divide_objects(n, s, p->garbage[i], resident);
			count_class(p->f, n, s, p->garbage[i], resident);
		} else if (s->element_size) {
			divide_stacks(n, &p->stacks.spans[i], resident);
		} else {
			add(n, n->runtime, "buffers of the collector", resident);
		}
	}
}

/* ---- frames by function ---- */

static int by_bytes(const void *a, const void *b)
{
	const struct function_frames *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->entry > y->entry) - (x->entry < y->entry);
}

/* If not all of them are resident, each function has its share of what is. */
static void divide_frames(struct stack_use *use, struct nodes *n)
{
	uint32_t node = memory_tree_child(n->tree, n->stacks, "frames of goroutines");
	uint64_t all = 0, left = n->frames;

	if (use->function_count)
		qsort(use->functions, use->function_count, sizeof(*use->functions), by_bytes);
	for (size_t i = 0; i < use->function_count; i++)
		if (__builtin_add_overflow(all, use->functions[i].bytes, &all))
			all = UINT64_MAX;
	for (size_t i = 0; all && i < use->function_count && i < MOST_FUNCTIONS; i++) {
		uint64_t bytes = use->functions[i].bytes;

		if (all > n->frames)
			bytes = (unsigned __int128)bytes * n->frames / all;
		add(n, node, use->functions[i].name, take(&left, bytes));
	}
	add(n, node, "(other functions)", left);
}

/* ---- the runtime ---- */

/* Chunks of what is never freed hold several kinds; the counters say how much of each. */
static void divide_persistent(const struct parts *p, struct nodes *n)
{
	const struct memory_classes *c = &p->memory.classes;
	uint64_t left = p->kinds[MEMORY_PERSISTENT];

	add(n, n->runtime, "structures of spans (mspan)",
	    take(&left, c->mspan_in_use + c->mspan_free));
	add(n, n->runtime, "caches of Ps (mcache)", take(&left, c->mcache_in_use + c->mcache_free));
	add(n, n->runtime, "buckets of profiles", take(&left, p->memory.bucket_bytes));
	add(n, n->runtime, "other structures that are never freed", left);
}

static void divide_runtime(const struct parts *p, struct nodes *n)
{
	static const char *const names[MEMORY_KINDS] = {
		[MEMORY_ARENA_INDEX] = "index of arenas",
		[MEMORY_ARENA_METADATA] = "pages and pointers of arenas (heapArena)",
		[MEMORY_SUMMARY] = "summaries of free pages",
		[MEMORY_PAGE_BITS] = "bitmaps of pages",
		[MEMORY_SCAVENGE_INDEX] = "index of the scavenger",
		[MEMORY_GC_BITS] = "bitmaps of objects (allocated, marked)",
		[MEMORY_SPAN_LIST] = "list of spans",
		[MEMORY_BUCKET_TABLE] = "hash table of profiles",
	};

	for (size_t i = 0; i < MEMORY_KINDS; i++)
		if (names[i])
			add(n, n->runtime, names[i], p->kinds[i]);
	divide_persistent(p, n);
}

static int by_object_size(const void *a, const void *b)
{
	const struct footprint_class *x = a, *y = b;
	/* Large objects, which have 0 here, come last. */
	uint64_t i = x->object_bytes - 1, k = y->object_bytes - 1;

	return (i > k) - (i < k);
}

struct error *heap_divide(struct parts *p)
{
	struct memory_tree *tree = &p->f->tree;
	uint32_t heap = memory_tree_child(tree, TREE_ROOT, "Go heap");
	struct nodes n = {
		.tree = tree,
		.heap = heap,
		.objects = memory_tree_child(tree, heap, "objects"),
		.garbage = memory_tree_child(tree, heap, "garbage that is not swept yet"),
		.slots = memory_tree_child(tree, heap, "free slots in spans (fragmentation)"),
		.stacks = memory_tree_child(tree, TREE_ROOT, "stacks of goroutines"),
		.runtime = memory_tree_child(tree, TREE_ROOT, "Go runtime"),
	};

	divide_spans(p, &n);
	add(&n, heap, "free, not returned to the OS", p->kinds[MEMORY_ARENA]);
	divide_frames(&p->stacks, &n);
	divide_runtime(p, &n);
	if (p->f->size_count)
		qsort(p->f->sizes, p->f->size_count, sizeof(*p->f->sizes), by_object_size);
	return n.failed ? &error_no_memory : NULL;
}
