#include "lib/recording_times.h"

#include <stdlib.h>

#include "base/cleanup.h"

struct error *recording_times_take(void *arg, uint64_t begin, uint64_t end,
				   const struct wall_part *parts, size_t count)
{
	struct recording_times *times = arg;
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count; i++) {
		const struct wall_part *part = &parts[i];

		err = timeline_add(part->is_sampled ? &times->samples : &times->looks, part->bucket,
				   begin, end, part->ns);
	}
	return err;
}

static uint64_t identity(const struct wall_bucket *b)
{
	return (uint64_t)b->stack << 32 | b->labels;
}

/* A running goroutine's place follows from its stack and labels; [0] in Go code, [1] in a system
 * call. */
static struct error *must_check find_running(const struct wall_sampler *sampler,
					     const uint32_t *places, struct map ret[2])
{
	const struct wall_bucket *buckets;
	size_t count = wall_sampler_buckets(sampler, &buckets);

	for (size_t i = 1; i < count; i++) {
		enum goroutine_status status = buckets[i].status;
		uint64_t *place;

		if (places[i] == TIMELINE_NO_ROW || (status != G_RUNNING && status != G_SYSCALL))
			continue;
		place = map_at(&ret[status == G_SYSCALL], identity(&buckets[i]));
		if (!place)
			return &error_no_memory;
		*place = places[i];
	}
	return NULL;
}

static struct error *must_check give_samples(struct recording_times *times,
					     const struct wall_sampler *sampler,
					     const uint32_t *places, struct profile *p)
{
	struct map running[2] = {0};
	struct error *err = find_running(sampler, places, running);
	_cleanup_free_ uint32_t *rows = NULL;
	struct wall_bucket b;
	size_t count = 0;

	while (!err && wall_sampler_sampled(sampler, count, &b))
		count++;
	rows = calloc(count + 1, sizeof(*rows));
	for (size_t i = 0; !err && rows && i < count; i++) {
		const uint64_t *place;

		wall_sampler_sampled(sampler, i, &b);
		place = map_find(&running[b.status == G_SYSCALL], identity(&b));
		rows[i] = place ? *place : TIMELINE_NO_ROW;
	}
	map_release(&running[0]);
	map_release(&running[1]);
	if (err)
		return err;
	return rows ? timeline_add_all(&p->timeline, &times->samples, rows, count)
		    : &error_no_memory;
}

struct error *recording_times_give(struct recording_times *times,
				   const struct wall_sampler *sampler, const uint32_t *places,
				   struct profile *p)
{
	const struct wall_bucket *buckets;
	size_t count = wall_sampler_buckets(sampler, &buckets);
	struct error *err = timeline_add_all(&p->timeline, &times->looks, places, count);

	return err ? err : give_samples(times, sampler, places, p);
}

void recording_times_release(struct recording_times *times)
{
	timeline_release(&times->looks);
	timeline_release(&times->samples);
}
