#include "sample/lap.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* A goroutine's time is in its bucket only when it has left that: until then it is in its record.
 */
static void add_open(struct lap_total *totals, const struct estimate *e,
		     const struct goroutine_record *r)
{
	if (r->owner_bucket == BUCKET_NONE)
		return;
	totals[r->owner_bucket].ns += e->credited - r->owner_since;
	totals[r->owner_bucket].count += e->rotations - r->owner_rotation;
}

static struct error *total_up(struct lap *lap, const struct estimate *e,
			      const struct goroutine_record *records, size_t count)
{
	size_t n = e->buckets.count;

	if (!array_reserve(&lap->now, &lap->now_capacity, n + 1) ||
	    !array_reserve(&lap->before, &lap->before_capacity, n + 1))
		return &error_no_memory;
	for (size_t i = 0; i < n; i++)
		lap->now[i] = (struct lap_total){e->buckets.items[i].ns, e->buckets.items[i].count};
	for (size_t i = 0; i < count; i++)
		add_open(lap->now, e, &records[i]);
	return NULL;
}

static struct error *add_difference(struct lap *lap, const struct wall_bucket *b, size_t i)
{
	struct goroutine_record like = {
		.key = b->status | (uint32_t)b->wait_reason << 8,
		.stack = b->stack,
		.labels = b->labels,
		.owner_creator = b->creator,
	};
	uint32_t place = buckets_of(&lap->seen, &like);
	struct wall_bucket *to;

	if (place == BUCKET_NONE)
		return &error_no_memory;
	to = &lap->seen.items[place];
	to->ns += lap->now[i].ns - lap->before[i].ns;
	to->count += lap->now[i].count - lap->before[i].count;
	to->cpu_ns = b->status == G_RUNNING ? to->ns : 0;
	return NULL;
}

static struct error *add_part(struct lap *lap, struct wall_part part)
{
	if (!array_reserve(&lap->parts, &lap->part_capacity, lap->part_count + 1))
		return &error_no_memory;
	lap->parts[lap->part_count++] = part;
	return NULL;
}

static struct error *add_looks(struct lap *lap, size_t i)
{
	return add_part(lap, (struct wall_part){i, false, lap->now[i].ns - lap->before[i].ns});
}

static struct error *take(struct lap *lap, const struct estimate *e,
			  const struct goroutine_record *records, size_t count, bool in_parts,
			  uint64_t *ret_ns)
{
	struct error *err = NULL;

	buckets_clear(&lap->seen);
	lap->part_count = 0;
	*ret_ns = e->credited - lap->credited;
	if (!*ret_ns)
		return NULL;
	err = total_up(lap, e, records, count);
	for (size_t i = 1; !err && i < e->buckets.count; i++)
		if (lap->now[i].ns != lap->before[i].ns)
			err = in_parts ? add_looks(lap, i)
				       : add_difference(lap, &e->buckets.items[i], i);
	if (err)
		return err;
	memcpy(lap->before, lap->now, e->buckets.count * sizeof(*lap->now));
	lap->credited = e->credited;
	return NULL;
}

struct error *lap_take(struct lap *lap, const struct estimate *e,
		       const struct goroutine_record *records, size_t count, uint64_t *ret_ns)
{
	return take(lap, e, records, count, false, ret_ns);
}

struct error *lap_take_parts(struct lap *lap, const struct estimate *e,
			     const struct goroutine_record *records, size_t count, uint64_t *ret_ns)
{
	return take(lap, e, records, count, true, ret_ns);
}

struct error *lap_take_rest(struct lap *lap, const struct estimate *e)
{
	struct error *err = NULL;
	size_t n = e->buckets.count;

	lap->part_count = 0;
	if (!array_reserve(&lap->before, &lap->before_capacity, n + 1))
		return &error_no_memory;
	for (size_t i = 1; !err && i < n; i++) {
		uint64_t ns = e->buckets.items[i].ns;

		if (ns > lap->before[i].ns)
			err = add_part(lap, (struct wall_part){i, false, ns - lap->before[i].ns});
	}
	return err;
}

/* Adds the counts since `before`, if any. Waits may have been dropped. */
static bool add_fresh(struct cpu_bucket *fresh, const struct cpu_bucket *before,
		      const struct cpu_bucket *now)
{
	*fresh = *now;
	fresh->count -= before->count;
	fresh->waits -= now->waits < before->waits ? now->waits : before->waits;
	fresh->waited_ns -= now->waits < before->waits ? now->waited_ns : before->waited_ns;
	return fresh->count || fresh->waits;
}

struct error *lap_take_samples(struct lap *lap, const struct cpu_bucket *samples, size_t count)
{
	lap->fresh_count = 0;
	if (!array_reserve(&lap->counted, &lap->counted_capacity, count + 1) ||
	    !array_reserve(&lap->fresh, &lap->fresh_capacity, count + 1))
		return &error_no_memory;
	for (size_t i = 0; i < count; i++) {
		struct cpu_bucket *before = &lap->counted[i];

		if (add_fresh(&lap->fresh[lap->fresh_count], before, &samples[i]))
			lap->fresh_count++;
		*before = samples[i];
	}
	return NULL;
}

struct error *lap_add_samples(struct lap *lap, const struct cpu_bucket *samples, size_t count,
			      uint64_t period_ns)
{
	struct error *err = NULL;

	if (!array_reserve(&lap->counted, &lap->counted_capacity, count + 1))
		return &error_no_memory;
	for (size_t i = 0; !err && i < count; i++) {
		uint64_t fresh = samples[i].count - lap->counted[i].count;

		if (fresh)
			err = add_part(lap, (struct wall_part){i, true, fresh * period_ns});
		lap->counted[i] = samples[i];
	}
	return err;
}

void lap_release(struct lap *lap)
{
	buckets_release(&lap->seen);
	free(lap->before);
	free(lap->now);
	free(lap->counted);
	free(lap->fresh);
	free(lap->parts);
}
