#include "sample/interval.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* A goroutine's time is credited to its bucket when the goroutine leaves it. Until then it is in
 * the goroutine's record.
 */
static void add_open(struct interval_total *totals, const struct estimate *e,
		     const struct goroutine_record *r)
{
	if (r->owner_bucket == BUCKET_NONE)
		return;
	totals[r->owner_bucket].ns += e->credited - r->owner_since;
	totals[r->owner_bucket].count += e->passes - r->owner_pass;
}

static struct error *total_up(struct interval *interval, const struct estimate *e,
			      const struct goroutine_record *records, size_t count)
{
	size_t n = e->buckets.count;

	if (!array_reserve(&interval->now, &interval->now_capacity, n + 1) ||
	    !array_reserve(&interval->before, &interval->before_capacity, n + 1))
		return &error_no_memory;
	for (size_t i = 0; i < n; i++)
		interval->now[i] =
			(struct interval_total){e->buckets.items[i].ns, e->buckets.items[i].count};
	for (size_t i = 0; i < count; i++)
		add_open(interval->now, e, &records[i]);
	return NULL;
}

static struct error *add_difference(struct interval *interval, const struct wall_bucket *b,
				    size_t i)
{
	struct goroutine_record like = {
		.key = b->status | (uint32_t)b->wait_reason << 8,
		.stack = b->stack,
		.labels = b->labels,
		.owner_creator = b->creator,
	};
	uint32_t place = buckets_of(&interval->seen, &like);
	struct wall_bucket *to;

	if (place == BUCKET_NONE)
		return &error_no_memory;
	to = &interval->seen.items[place];
	to->ns += interval->now[i].ns - interval->before[i].ns;
	to->count += interval->now[i].count - interval->before[i].count;
	to->cpu_ns = b->status == G_RUNNING ? to->ns : 0;
	return NULL;
}

static struct error *add_part(struct interval *interval, struct wall_part part)
{
	if (!array_reserve(&interval->parts, &interval->part_capacity, interval->part_count + 1))
		return &error_no_memory;
	interval->parts[interval->part_count++] = part;
	return NULL;
}

static struct error *add_looks(struct interval *interval, size_t i)
{
	return add_part(interval,
			(struct wall_part){i, false, interval->now[i].ns - interval->before[i].ns});
}

static struct error *take(struct interval *interval, const struct estimate *e,
			  const struct goroutine_record *records, size_t count, bool in_parts,
			  uint64_t *ret_ns)
{
	struct error *err = NULL;

	buckets_clear(&interval->seen);
	interval->part_count = 0;
	*ret_ns = e->credited - interval->credited;
	if (!*ret_ns)
		return NULL;
	err = total_up(interval, e, records, count);
	for (size_t i = 1; !err && i < e->buckets.count; i++)
		if (interval->now[i].ns != interval->before[i].ns)
			err = in_parts ? add_looks(interval, i)
				       : add_difference(interval, &e->buckets.items[i], i);
	if (err)
		return err;
	memcpy(interval->before, interval->now, e->buckets.count * sizeof(*interval->now));
	interval->credited = e->credited;
	return NULL;
}

struct error *interval_take(struct interval *interval, const struct estimate *e,
			    const struct goroutine_record *records, size_t count, uint64_t *ret_ns)
{
	return take(interval, e, records, count, false, ret_ns);
}

struct error *interval_take_parts(struct interval *interval, const struct estimate *e,
				  const struct goroutine_record *records, size_t count,
				  uint64_t *ret_ns)
{
	return take(interval, e, records, count, true, ret_ns);
}

struct error *interval_take_rest(struct interval *interval, const struct estimate *e)
{
	struct error *err = NULL;
	size_t n = e->buckets.count;

	interval->part_count = 0;
	if (!array_reserve(&interval->before, &interval->before_capacity, n + 1))
		return &error_no_memory;
	for (size_t i = 1; !err && i < n; i++) {
		uint64_t ns = e->buckets.items[i].ns;

		if (ns > interval->before[i].ns)
			err = add_part(interval,
				       (struct wall_part){i, false, ns - interval->before[i].ns});
	}
	return err;
}

/* Adds the counts since `before`, if there are any. Waits may have been dropped. */
static bool add_fresh(struct cpu_bucket *fresh, const struct cpu_bucket *before,
		      const struct cpu_bucket *now)
{
	*fresh = *now;
	fresh->count -= before->count;
	fresh->waits -= now->waits < before->waits ? now->waits : before->waits;
	fresh->waited_ns -= now->waits < before->waits ? now->waited_ns : before->waited_ns;
	return fresh->count || fresh->waits;
}

struct error *interval_take_samples(struct interval *interval, const struct cpu_bucket *samples,
				    size_t count)
{
	interval->fresh_count = 0;
	if (!array_reserve(&interval->counted, &interval->counted_capacity, count + 1) ||
	    !array_reserve(&interval->fresh, &interval->fresh_capacity, count + 1))
		return &error_no_memory;
	for (size_t i = 0; i < count; i++) {
		struct cpu_bucket *before = &interval->counted[i];

		if (add_fresh(&interval->fresh[interval->fresh_count], before, &samples[i]))
			interval->fresh_count++;
		*before = samples[i];
	}
	return NULL;
}

struct error *interval_add_samples(struct interval *interval, const struct cpu_bucket *samples,
				   size_t count, uint64_t period_ns)
{
	struct error *err = NULL;

	if (!array_reserve(&interval->counted, &interval->counted_capacity, count + 1))
		return &error_no_memory;
	for (size_t i = 0; !err && i < count; i++) {
		uint64_t fresh = samples[i].count - interval->counted[i].count;

		if (fresh)
			err = add_part(interval, (struct wall_part){i, true, fresh * period_ns});
		interval->counted[i] = samples[i];
	}
	return err;
}

void interval_release(struct interval *interval)
{
	buckets_release(&interval->seen);
	free(interval->before);
	free(interval->now);
	free(interval->counted);
	free(interval->fresh);
	free(interval->parts);
}
