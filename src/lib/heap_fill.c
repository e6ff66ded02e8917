/* Samples of the runtime's profiles, with the numbers that runtime/pprof would have written. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "lib/heap.h"
#include "memory/bucket_stacks.h"

/* Of ObjectSize: runtime/pprof/protomem.go, Go 1.27. */
#define FIRST_WITH_OBJECT_SIZE 27

struct error *heap_begin(struct profile *p, enum bucket_kind kind)
{
	static const char *const memory[][2] = {{"alloc_objects", "count"},
						{"alloc_space", "bytes"},
						{"inuse_objects", "count"},
						{"inuse_space", "bytes"}};
	static const char *const blocking[][2] = {{"contentions", "count"},
						  {"delay", "nanoseconds"}};
	const char *const(*types)[2] = kind == BUCKET_MEMORY ? memory : blocking;
	size_t count = kind == BUCKET_MEMORY ? ARRAY_SIZE(memory) : ARRAY_SIZE(blocking);
	bool is_memory = kind == BUCKET_MEMORY;
	struct error *err = NULL;

	for (size_t i = 0; i < count && !err; i++)
		err = profile_add_type(p, types[i][0], types[i][1]);
	p->unit = is_memory ? PROFILE_BYTES : PROFILE_NANOSECONDS;
	p->period_type.type = intern_string(&p->strings, is_memory ? "space" : "contentions");
	p->period_type.unit = intern_string(&p->strings, is_memory ? "bytes" : "count");
	p->period_ns = 1;
	return err;
}

struct pclntab heap_functions(const struct gospect_target *t)
{
	struct pclntab functions = t->image->functions;

	functions.short_names = NULL;
	return functions;
}

/* A sample of the profile under construction. */
struct adding {
	struct profile *p;
	const struct gospect_target *t;
	const struct runtime_buckets *b;
	bool hides_runtime;
	uint64_t *words;
	size_t capacity;
};

static struct error *must_check add(struct adding *a, const struct runtime_bucket *bucket,
				    const struct profile_values *values, int64_t count,
				    int64_t amount)
{
	struct profile_sample sample = {.count = count > 0 ? count : 0,
					.wall_ns = amount > 0 ? amount : 0};

	if (!array_reserve(&a->words, &a->capacity, bucket->depth + 1))
		return &error_no_memory;
	sample.pcs = a->words;
	sample.depth =
		bucket_stack_words(&a->t->image->functions, a->b->pcs + bucket->first,
				   bucket->depth, a->hides_runtime, a->t->layout->minor, a->words);
	return profile_append_values(a->p, &sample, values);
}

static void set_size(const struct gospect_target *t, const struct runtime_bucket *b,
		     struct profile_values *values)
{
	values->object_size = b->allocs ? (int64_t)(b->alloc_bytes / b->allocs) : 0;
	values->has_size = values->object_size != 0;
	if (t->layout->minor < FIRST_WITH_OBJECT_SIZE)
		return;
	values->object_size = (int64_t)b->object_size;
	values->has_size = true;
}

struct error *heap_add_memory(struct profile *p, const struct gospect_target *t,
			      const struct runtime_buckets *b, int64_t rate, size_t shown)
{
	struct adding a = {.p = p, .t = t, .b = b, .hides_runtime = true};
	struct error *err = NULL;

	p->period_ns = rate;
	for (size_t i = 0; i < b->count && !err; i++) {
		const struct runtime_bucket *bucket = &b->items[i];
		struct profile_values v = {0};

		bucket_unsample((int64_t)bucket->allocs, (int64_t)bucket->alloc_bytes, rate,
				&v.values[0], &v.values[1]);
		bucket_unsample((int64_t)(bucket->allocs - bucket->frees),
				(int64_t)(bucket->alloc_bytes - bucket->free_bytes), rate,
				&v.values[2], &v.values[3]);
		set_size(t, bucket, &v);
		err = add(&a, bucket, &v, v.values[shown], v.values[shown + 1]);
	}
	free(a.words);
	return err;
}

/* The bucket's counters at the first look; a bucket that is new had none. */
static struct error *must_check index_of(const struct runtime_buckets *b, struct map *ret)
{
	for (size_t i = 0; i < b->count; i++) {
		uint64_t *place = map_at(ret, b->items[i].address);

		if (!place)
			return &error_no_memory;
		*place = i + 1;
	}
	return NULL;
}

struct error *heap_add_growth(struct profile *p, const struct gospect_target *t,
			      const struct runtime_buckets *before,
			      const struct runtime_buckets *after, int64_t rate)
{
	struct adding a = {.p = p, .t = t, .b = after, .hides_runtime = true};
	_cleanup_map_ struct map index = {0};
	struct error *err = index_of(before, &index);

	p->period_ns = rate;
	for (size_t i = 0; i < after->count && !err; i++) {
		const struct runtime_bucket *bucket = &after->items[i];
		const uint64_t *place = map_find(&index, bucket->address);
		struct runtime_bucket grown = *bucket;
		struct profile_values v = {0};

		if (place) {
			grown.allocs -= before->items[*place - 1].allocs;
			grown.alloc_bytes -= before->items[*place - 1].alloc_bytes;
		}
		if ((int64_t)grown.allocs <= 0)
			continue;
		bucket_unsample((int64_t)grown.allocs, (int64_t)grown.alloc_bytes, rate,
				&v.values[0], &v.values[1]);
		set_size(t, &grown, &v);
		err = add(&a, bucket, &v, v.values[0], v.values[1]);
	}
	free(a.words);
	return err;
}

/* ---- blocking and mutexes ---- */

static int by_cycles(const void *x, const void *y, void *buckets)
{
	const struct runtime_bucket *items = ((const struct runtime_buckets *)buckets)->items;
	size_t a = *(const size_t *)x, b = *(const size_t *)y;

	if (items[a].cycles != items[b].cycles)
		return items[a].cycles < items[b].cycles ? 1 : -1;
	return (a > b) - (a < b);
}

static int64_t whole(double value)
{
	if (!(value > -0x1p63))
		return INT64_MIN;
	return value >= 0x1p63 ? INT64_MAX : (int64_t)value;
}

struct error *heap_add_blocking(struct profile *p, const struct gospect_target *t,
				const struct runtime_buckets *b, enum bucket_kind kind,
				int64_t scale, double ticks_per_ns)
{
	_cleanup_free_ size_t *order = calloc(b->count + 1, sizeof(*order));
	struct adding a = {.p = p, .t = t, .b = b};
	struct error *err = order ? NULL : &error_no_memory;

	for (size_t i = 0; !err && i < b->count; i++)
		order[i] = i;
	if (!err)
		qsort_r(order, b->count, sizeof(*order), by_cycles, (void *)b);
	for (size_t i = 0; i < b->count && !err; i++) {
		const struct runtime_bucket *bucket = &b->items[order[i]];
		struct profile_values v = {0};
		int64_t count = whole(bucket->count);

		if (kind == BUCKET_BLOCK && !count)
			count = 1;
		v.values[0] = whole((double)count * (double)scale);
		v.values[1] = whole((double)bucket->cycles / ticks_per_ns * (double)scale);
		err = add(&a, bucket, &v, v.values[0], v.values[1]);
	}
	free(a.words);
	return err;
}
