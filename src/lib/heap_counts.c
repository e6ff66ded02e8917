/* The goroutine, goroutineleak and threadcreate profiles: how many have each stack. */
#include <gospect/heap.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "dump/dump.h"
#include "golayout/view.h"
#include "lib/fill.h"
#include "lib/heap.h"
#include "lib/leaked.h"
#include "lib/unwind.h"
#include "memory/bucket_stacks.h"

/* Deeper stacks are cut. */
#define STACK_LIMIT (64u << 20)

/* m.createstack, in all versions. */
#define CREATE_DEPTH 32
#define MOST_THREADS (1u << 22)

static int by_count(const void *a, const void *b)
{
	const struct profile_sample *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	for (uint32_t i = 0; i < x->depth && i < y->depth; i++)
		if (x->pcs[i] != y->pcs[i])
			return x->pcs[i] < y->pcs[i] ? -1 : 1;
	return (x->depth > y->depth) - (x->depth < y->depth);
}

/* Most first; each count becomes the sample's value. */
struct error *heap_finish_counts(struct profile *p, const char *type)
{
	struct error *err = profile_add_type(p, type, "count");

	if (!err && !array_reserve(&p->values, &p->value_capacity, p->count + 1))
		err = &error_no_memory;
	if (err)
		return err;
	p->period_type = p->types[0];
	p->period_ns = 1;
	if (p->count)
		qsort(p->samples, p->count, sizeof(*p->samples), by_count);
	for (size_t i = 0; i < p->count; i++)
		p->values[i].values[0] = (int64_t)p->samples[i].count;
	map_release(&p->index);
	return NULL;
}

/* State and wait reason are not in this profile: equal stacks are one. */
static struct error *must_check add_goroutine(struct profile *p, const struct dump *dump,
					      const struct dump_goroutine *g)
{
	struct profile_sample sample = {.count = 1};
	uint32_t stack = g->unknown ? STACK_NONE : g->stack;

	return fill_sample(p, dump->set, stack, g->labels, G_RUNNING, 0, &sample, NULL);
}

struct error *heap_add_goroutines(struct profile *p, struct gospect_target *t, uint32_t kind,
				  struct profile_symbols **ret)
{
	struct dump_options collect = {.stack_limit = STACK_LIMIT, .stop = t->cancel};
	bool leaked_alone = kind == GOSPECT_GOROUTINELEAK;
	_cleanup_map_ struct map leaked = {0};
	struct debug_frame *frames = NULL;
	_cleanup_dump_ struct dump *dump = NULL;
	struct error *err = unwind_open(GOSPECT_UNWIND_PCSP, t->image, &frames, &collect.unwind);

	if (!err && leaked_alone)
		err = leaked_find(t, &leaked);
	if (!err)
		err = dump_collect(t->target, t->image, t->layout, &collect, &dump);
	for (size_t i = 0; !err && i < dump->count; i++)
		if (!leaked_alone || map_find(&leaked, dump->items[i].id))
			err = add_goroutine(p, dump, &dump->items[i]);
	if (!err)
		err = heap_finish_counts(p, leaked_alone ? "goroutineleak" : "goroutine");
	if (!err) {
		const struct pclntab functions = heap_functions(t);
		const struct code code = {
			.functions = &functions,
			.modules = dump->sampler ? oncpu_sampler_modules(dump->sampler) : NULL,
		};

		err = profile_symbolize_code(p, &code, t->cancel, ret);
		if (!err)
			err = fill_modules(p, code.modules);
	}
	debug_frame_close(frames);
	return err;
}

/* Most threads are made on a thread's own stack, which has no frame of interest: all 0. */
static struct error *must_check add_thread(struct profile *p, const struct gospect_target *t,
					   uint64_t m)
{
	uint64_t stack[CREATE_DEPTH], words[CREATE_DEPTH];
	struct profile_sample sample = {.count = 1, .pcs = words};
	size_t depth = 0;
	struct error *err =
		target_read(t->target, m_at_createstack(&t->layout->n, m), stack, sizeof(stack));

	if (err)
		return err;
	while (depth < CREATE_DEPTH && stack[depth])
		depth++;
	sample.depth = bucket_stack_words(&t->image->functions, stack, depth, false,
					  t->layout->minor, words);
	return profile_add(p, &sample);
}

struct error *heap_add_threads(struct profile *p, const struct gospect_target *t)
{
	_cleanup_map_ struct map seen = {0};
	uint64_t m;
	struct error *err = target_read_u64(t->target, t->layout->v.allm, &m);

	while (!err && m) {
		uint64_t *known = map_at(&seen, m);

		if (!known)
			return &error_no_memory;
		if (*known || seen.count > MOST_THREADS)
			return error_format(
				ERROR_CORRUPT,
				"the target's list of threads is circular: its memory is corrupt");
		*known = 1;
		err = add_thread(p, t, m);
		if (!err)
			err = target_read_u64(t->target, m_at_alllink(&t->layout->n, m), &m);
	}
	return err ? err : heap_finish_counts(p, "threadcreate");
}
