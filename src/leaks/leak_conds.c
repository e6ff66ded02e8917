/*
 * Before Go 1.27 a goroutine that waits for a sync.Cond does not lead to it, so the Cond is found
 * on its stack. It counts if the goroutine is in the Cond's own queue of waiters.
 */
#include "base/array.h"
#include "leaks/leak_looks.h"

/* sync.Cond and sync.notifyList, in Go 1.17 to 1.27. */
enum { COND_HEAD = 16 + 16 };
#define MAX_WAITERS (1u << 22)

static struct error *must_check walk(struct leak_looks *l, uint64_t cond)
{
	uint8_t bytes[GOLAYOUT_WAIT_LIMIT];
	struct sudog_view v = {&l->lay->n, bytes};
	size_t size = golayout_sudog_bytes(&l->lay->n);
	uint64_t at;

	if (error_dropped(target_read_u64(l->t, cond + COND_HEAD, &at)))
		return NULL;
	for (size_t i = 0; at && i < MAX_WAITERS && size <= sizeof(bytes); i++) {
		uint64_t *place;

		if (error_dropped(target_read(l->t, at, bytes, size)) || !sudog_view_g(v))
			break;
		place = map_at(&l->conds, sudog_view_g(v));
		if (!place)
			return &error_no_memory;
		/* A list that was made a ring ends here. */
		if (*place == cond)
			break;
		*place = cond;
		at = sudog_view_next(v);
	}
	return NULL;
}

struct error *leak_conds_find(struct leak_looks *l)
{
	_cleanup_map_ struct map seen = {0};
	struct error *err = NULL;

	map_clear(&l->conds);
	for (size_t i = 0; i < l->waits->edge_count && !err; i++) {
		const struct wait_edge *e = &l->waits->edges[i];
		uint64_t *place;

		if (e->kind != WAIT_COND)
			continue;
		place = map_at(&seen, e->address);
		if (!place)
			return &error_no_memory;
		if (!*place)
			err = walk(l, e->address);
		*place = 1;
	}
	return err;
}
