#include "collect/living.h"

#include "base/clock.h"
#include "golayout/view.h"

/* Goroutines that are read at once. */
#define BATCH 256

static struct error *must_check read_goids(struct living *l, struct target *t,
					   const struct golayout *lay, const uint64_t *gs,
					   size_t count)
{
	struct target_range ranges[2 * BATCH];
	uint64_t goids[BATCH];
	uint32_t states[BATCH];
	bool ok[2 * BATCH];
	struct error *err;

	for (size_t i = 0; i < count; i++) {
		ranges[2 * i] = (struct target_range){g_at_goid(&lay->n, gs[i]), 8, &goids[i]};
		ranges[2 * i + 1] =
			(struct target_range){g_at_status(&lay->n, gs[i]), 4, &states[i]};
	}
	err = target_read_each(t, ranges, 2 * count, ok);
	for (size_t i = 0; !err && i < count; i++) {
		uint32_t state = states[i] & ~G_SCAN;

		if (!ok[2 * i] || !ok[2 * i + 1] || goids[i] == MAP_NO_KEY)
			continue;
		if (state != G_IDLE && state != G_DEAD && !map_at(&l->goids, goids[i]))
			err = &error_no_memory;
	}
	return err;
}

/* The next of the list, which may grow, and move. */
static struct error *must_check read_some(struct living *l, struct target *t,
					  const struct golayout *lay)
{
	uint64_t gs[BATCH], count, list;
	struct error *err = target_read_u64(t, lay->v.allglen, &count);

	if (!err && count > l->checked)
		err = golayout_check_count(lay, t, count);
	if (!err)
		err = target_read_u64(t, lay->v.allgptr, &list);
	if (err)
		return err;
	l->checked = count > l->checked ? count : l->checked;
	l->complete = l->at >= count;
	if (l->complete)
		return NULL;
	count = count - l->at < BATCH ? count - l->at : BATCH;
	err = target_read(t, list + l->at * sizeof(gs[0]), gs, count * sizeof(gs[0]));
	l->at += count;
	return err ? err : read_goids(l, t, lay, gs, count);
}

struct error *living_read(struct living *l, struct target *t, const struct golayout *lay,
			  uint64_t ns)
{
	uint64_t began = clock_now();
	struct error *err = NULL;

	if (!l->at)
		l->began_ns = began;
	while (!err && !l->complete && clock_now() - began < ns)
		err = read_some(l, t, lay);
	return err;
}

void living_release(struct living *l)
{
	map_release(&l->goids);
	*l = (struct living){0};
}
