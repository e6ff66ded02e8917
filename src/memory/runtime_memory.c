/*
 * memstats.heapStats has three generations of changes that a reader of the runtime merges; their
 * sum is always what all of them say together (mstats.go: consistentHeapStats). A reader that
 * merges them at this moment may count some changes twice.
 */
#include "memory/runtime_memory.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "golayout/view.h"
#include "memory/runtime_ranges.h"

#define GENERATIONS 3
#define MOST_CLASSES 256
#define LAST_WITH_LONGER_DELTAS 18

/* memoryLimitHeapGoal() of mgcpacer.go keeps 3 % below the limit, and at least 1 MB. */
#define HEADROOM_PERCENT 3
#define LEAST_HEADROOM (1u << 20)
/* heapGoalInternal(): the goal lies at least so far above where the cycle began. */
#define LEAST_RUNWAY (64u << 10)

static uint64_t at_least_0(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static struct error *must_check read_optional(struct target *t, uint64_t address, uint64_t *ret)
{
	*ret = 0;
	return address ? target_read_u64(t, address, ret) : NULL;
}

/* ---- the heap's counters ---- */

struct deltas {
	const struct golayout_numbers *n;
	const uint8_t *bytes;
	size_t size; /* of a generation */
};

/* The sum of a word over all generations; changes wrap around. */
static uint64_t sum_at(const struct deltas *d, int64_t offset)
{
	uint64_t sum = 0, word;

	if (offset < 0 || (uint64_t)offset + sizeof(word) > d->size)
		return 0;
	for (size_t i = 0; i < GENERATIONS; i++) {
		memcpy(&word, d->bytes + i * d->size + offset, sizeof(word));
		sum += word;
	}
	return sum;
}

/* class_to_size of sizeclasses.go, the same in Go 1.17 to 1.27. What spans say is preferred. */
static void class_sizes(const struct heap_spans *spans, uint64_t ret[MOST_CLASSES])
{
	static const uint16_t known[] = {0,     8,     16,    24,    32,    48,    64,    80,
					 96,    112,   128,   144,   160,   176,   192,   208,
					 224,   240,   256,   288,   320,   352,   384,   416,
					 448,   480,   512,   576,   640,   704,   768,   896,
					 1024,  1152,  1280,  1408,  1536,  1792,  2048,  2304,
					 2688,  3072,  3200,  3456,  4096,  4864,  5376,  6144,
					 6528,  6784,  6912,  8192,  9472,  9728,  10240, 10880,
					 12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760,
					 24576, 27264, 28672, 32768};

	memset(ret, 0, MOST_CLASSES * sizeof(*ret));
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		ret[i] = known[i];
	for (size_t i = 0; i < spans->count; i++)
		if (spans->items[i].state == SPAN_IN_USE && spans->items[i].size_class)
			ret[spans->items[i].size_class] = spans->items[i].element_size;
}

/* The counts of large objects lie behind their bytes, and that of tiny ones before them. */
#define COUNT_BEHIND 8
#define TINY_BEFORE 8

static void take_objects(const struct deltas *d, const struct heap_spans *spans,
			 struct memory_classes *c, struct heap_counts *counts)
{
	const struct golayout_numbers *n = d->n;
	int64_t classes = ((int64_t)n->delta_large_free - n->delta_small_alloc) / 8;
	uint64_t sizes[MOST_CLASSES];

	class_sizes(spans, sizes);
	counts->tiny = sum_at(d, n->delta_large_alloc - TINY_BEFORE);
	counts->frees = sum_at(d, n->delta_large_free + COUNT_BEHIND);
	counts->freed_bytes = sum_at(d, n->delta_large_free);
	c->heap_objects = sum_at(d, n->delta_large_alloc) - counts->freed_bytes;
	for (int64_t i = 0; i < classes && i < MOST_CLASSES; i++) {
		uint64_t frees = sum_at(d, n->delta_small_free + i * 8);

		counts->frees += frees;
		counts->freed_bytes += frees * sizes[i];
		c->heap_objects += (sum_at(d, n->delta_small_alloc + i * 8) - frees) * sizes[i];
	}
}

static void take_heap(const struct deltas *d, const struct heap_spans *spans,
		      struct memory_classes *c, struct heap_counts *counts)
{
	const struct golayout_numbers *n = d->n;
	uint64_t in_heap = sum_at(d, n->delta_in_heap), stacks = sum_at(d, n->delta_in_stacks);
	uint64_t buffers = sum_at(d, n->delta_in_work_bufs);
	uint64_t bits = sum_at(d, n->delta_in_program_bits);

	take_objects(d, spans, c, counts);
	c->heap_unused = at_least_0(in_heap, c->heap_objects);
	c->heap_released = sum_at(d, n->delta_released);
	c->heap_stacks = stacks;
	c->heap_free = at_least_0(sum_at(d, n->delta_committed), in_heap + stacks + buffers + bits);
	c->metadata_other = buffers + bits;
	c->total = sum_at(d, n->delta_committed) + c->heap_released;
}

/* The bytes in spans in use, by the spans themselves. */
static uint64_t bytes_in_use(const struct heap_spans *spans)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < spans->count; i++)
		sum += spans->items[i].state == SPAN_IN_USE ? spans->items[i].size : 0;
	return sum;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/*
 * A generation ends behind the counts of freed small objects. In Go 1.17 and 1.18 a word follows,
 * up to some patch release; the sum that is closer to what the spans say tells.
 */
static void find_generation(struct deltas *d, int minor, const struct heap_spans *spans)
{
	struct deltas longer = *d;
	int32_t in_heap = d->n->delta_in_heap;
	uint64_t want = bytes_in_use(spans);

	longer.size += sizeof(uint64_t);
	if (minor <= LAST_WITH_LONGER_DELTAS &&
	    distance(sum_at(&longer, in_heap), want) < distance(sum_at(d, in_heap), want))
		*d = longer;
}

static struct error *must_check read_heap(struct target *t, const struct golayout *lay,
					  const struct memory_variables *v,
					  const struct heap_spans *spans, struct runtime_memory *m)
{
	const struct golayout_numbers *n = &lay->n;
	int64_t size = (int64_t)n->delta_small_free + n->delta_large_free - n->delta_small_alloc;
	struct deltas d = {.n = n, .size = size > 0 ? size : 0};
	_cleanup_free_ uint8_t *bytes = calloc(GENERATIONS, d.size + sizeof(uint64_t));
	struct error *err;

	if (!bytes)
		return &error_no_memory;
	d.bytes = bytes;
	err = target_read(t, stats_at_heap(n, v->stats), bytes,
			  GENERATIONS * (d.size + sizeof(uint64_t)));
	if (err)
		return err;
	find_generation(&d, lay->minor, spans);
	take_heap(&d, spans, &m->classes, &m->counts);
	return NULL;
}

/* ---- what lies outside of the heap ---- */

static struct error *must_check read_system(struct target *t, const struct golayout *lay,
					    const struct memory_variables *v,
					    struct memory_classes *c)
{
	const struct golayout_numbers *n = &lay->n;
	uint64_t spans = 0, mcaches = 0, gc = 0;
	const struct {
		uint64_t address;
		uint64_t *value;
	} words[] = {
		{stats_at_spans(n, v->stats), &spans},
		{stats_at_mcaches(n, v->stats), &mcaches},
		{stats_at_gc(n, v->stats), &gc},
		{stats_at_stacks(n, v->stats), &c->os_stacks},
		{stats_at_other(n, v->stats), &c->other},
		{stats_at_buckets(n, v->stats), &c->profiling_buckets},
		{heap_at_span_bytes(n, v->heap), &c->mspan_in_use},
		{heap_at_mcache_bytes(n, v->heap), &c->mcache_in_use},
	};
	struct error *err = NULL;

	for (size_t i = 0; !err && i < ARRAY_SIZE(words); i++)
		err = read_optional(t, words[i].address, words[i].value);
	c->mspan_free = at_least_0(spans, c->mspan_in_use);
	c->mcache_free = at_least_0(mcaches, c->mcache_in_use);
	c->metadata_other += gc;
	c->total += spans + mcaches + gc + c->os_stacks + c->other + c->profiling_buckets;
	return err;
}

#define CLASS(path, member)                                                               \
	{                                                                                 \
		"/memory/classes/" path ":bytes", offsetof(struct memory_classes, member) \
	}

const char *memory_class_at(const struct memory_classes *classes, size_t i, uint64_t *ret)
{
	static const struct {
		const char *name;
		size_t member;
	} all[] = {
		CLASS("heap/objects", heap_objects),
		CLASS("heap/unused", heap_unused),
		CLASS("heap/free", heap_free),
		CLASS("heap/released", heap_released),
		CLASS("heap/stacks", heap_stacks),
		CLASS("metadata/mspan/inuse", mspan_in_use),
		CLASS("metadata/mspan/free", mspan_free),
		CLASS("metadata/mcache/inuse", mcache_in_use),
		CLASS("metadata/mcache/free", mcache_free),
		CLASS("metadata/other", metadata_other),
		CLASS("os-stacks", os_stacks),
		CLASS("other", other),
		CLASS("profiling/buckets", profiling_buckets),
		CLASS("total", total),
	};

	if (i >= ARRAY_SIZE(all))
		return NULL;
	memcpy(ret, (const char *)classes + all[i].member, sizeof(*ret));
	return all[i].name;
}

/* ---- the collector ---- */

/* The pacer's inputs beside those that struct gc_pacing has. */
struct pacer {
	uint64_t limit, percent_goal, heap_free, allocated, freed, ready, triggered, sweep_trigger;
};

static struct error *must_check read_pacer(struct target *t, const struct golayout *lay,
					   const struct memory_variables *v, struct gc_pacing *gc,
					   struct pacer *p)
{
	const struct golayout_numbers *n = &lay->n;
	uint64_t goal_at = gc_at_percent_goal(n, v->controller), percent = 0;
	const struct {
		uint64_t address;
		uint64_t *value;
	} words[] = {
		{gc_at_percent(n, v->controller), &percent},
		{gc_at_memory_limit(n, v->controller), &p->limit},
		{goal_at ? goal_at : gc_at_heap_goal(n, v->controller), &p->percent_goal},
		{gc_at_heap_live(n, v->controller), &gc->live},
		{gc_at_heap_marked(n, v->controller), &gc->marked},
		{gc_at_triggered(n, v->controller), &p->triggered},
		{gc_at_sweep_trigger(n, v->controller), &p->sweep_trigger},
		{gc_at_heap_free(n, v->controller), &p->heap_free},
		{gc_at_total_alloc(n, v->controller), &p->allocated},
		{gc_at_total_free(n, v->controller), &p->freed},
		{gc_at_mapped_ready(n, v->controller), &p->ready},
		{stats_at_last_gc(n, v->stats), &gc->last_gc_ns},
	};
	struct error *err = NULL;

	for (size_t i = 0; !err && i < ARRAY_SIZE(words); i++)
		err = read_optional(t, words[i].address, words[i].value);
	gc->percent = (int32_t)(uint32_t)percent;
	gc->limit = p->limit && p->limit < INT64_MAX ? p->limit : UINT64_MAX;
	return err ? err : target_read_u32(t, stats_at_cycles(n, v->stats), &gc->cycles);
}

/* As memoryLimitHeapGoal(), for which no limit is the largest one; UINT64_MAX: an older version. */
static uint64_t limit_goal(const struct gc_pacing *gc, const struct pacer *p)
{
	uint64_t heap = p->allocated - p->freed, over = at_least_0(p->ready, p->limit);
	uint64_t others = at_least_0(p->ready, p->heap_free + heap), goal, room;

	if (!p->limit || !p->ready)
		return UINT64_MAX;
	if (others + over >= p->limit)
		return gc->marked;
	goal = p->limit - (others + over);
	room = goal / 100 * HEADROOM_PERCENT;
	room = room < LEAST_HEADROOM ? LEAST_HEADROOM : room;
	goal = goal < room || goal - room < room ? room : goal - room;
	return goal < gc->marked ? gc->marked : goal;
}

/* As heapGoalInternal(). Before Go 1.19 the goal is a field. */
static void find_goal(struct gc_pacing *gc, const struct pacer *p, bool is_field)
{
	uint64_t by_limit = is_field ? UINT64_MAX : limit_goal(gc, p);

	gc->goal = p->percent_goal;
	gc->is_limited = by_limit < gc->goal && gc->limit != UINT64_MAX;
	if (by_limit < gc->goal)
		gc->goal = by_limit;
	if (gc->goal == by_limit || is_field)
		return;
	if (p->sweep_trigger > gc->goal)
		gc->goal = p->sweep_trigger;
	if (p->triggered != UINT64_MAX && gc->goal < p->triggered + LEAST_RUNWAY)
		gc->goal = p->triggered + LEAST_RUNWAY;
}

static struct error *must_check read_gc(struct target *t, const struct golayout *lay,
					const struct memory_variables *v, struct gc_pacing *gc)
{
	struct pacer p = {.triggered = UINT64_MAX};
	struct error *err = read_pacer(t, lay, v, gc, &p);

	if (err)
		return err;
	gc->known = true;
	find_goal(gc, &p, lay->n.gc_percent_goal == GOLAYOUT_ABSENT);
	return NULL;
}

void runtime_memory_release(struct runtime_memory *m)
{
	free(m->ranges);
	*m = (struct runtime_memory){0};
}

struct error *runtime_memory_read(struct target *t, enum machine machine,
				  const struct golayout *lay, const struct memory_variables *v,
				  const struct heap_spans *spans, struct runtime_memory *ret)
{
	_cleanup_runtime_memory_ struct runtime_memory m = {0};
	struct error *err = read_heap(t, lay, v, spans, &m);

	if (!err)
		err = read_system(t, lay, v, &m.classes);
	if (!err)
		err = read_gc(t, lay, v, &m.gc);
	if (!err)
		err = runtime_ranges_add(t, machine, lay, v, spans, &m);
	if (err)
		return err;
	m.bucket_bytes = at_least_0(m.classes.profiling_buckets, BUCKET_TABLE_BYTES);
	*ret = m;
	m = (struct runtime_memory){0};
	return NULL;
}
