#include "collect/label_reader.h"

#include "golayout/view.h"

static struct error *must_check read_batch(struct label_sets *sets, struct target *t,
					   const struct golayout *lay, struct labelled *items,
					   size_t count, uint32_t *ret, uint64_t (*now)[2],
					   bool *ok)
{
	struct target_range ranges[2 * LABELS_BATCH];
	uint64_t pointers[LABELS_BATCH] = {0};
	struct error *err;

	for (size_t i = 0; i < count; i++) {
		pointers[i] = items[i].labels;
		ranges[2 * i] =
			(struct target_range){g_at_goid(&lay->n, items[i].g), 8, &now[i][0]};
		ranges[2 * i + 1] =
			(struct target_range){g_at_labels(&lay->n, items[i].g), 8, &now[i][1]};
	}
	err = label_sets_read(sets, t, pointers, count, ret);
	return err ? err : target_read_each(t, ranges, 2 * count, ok);
}

/* Sets that were read from outside are kept only to be read faster again. */
static void limit_sets(struct label_sets *sets)
{
	bool maps = sets->maps;

	if (sets->count < LABELS_MAX_SETS / 2 && sets->bytes < LABELS_MAX_BYTES / 2)
		return;
	label_sets_release(sets);
	*sets = (struct label_sets){.maps = maps};
}

struct error *label_reader_read(struct label_sets *sets, struct target *t,
				const struct golayout *lay, struct labelled *items, size_t count,
				uint32_t *ret)
{
	uint64_t now[LABELS_BATCH][2] = {0};
	bool ok[2 * LABELS_BATCH];
	struct error *err;

	limit_sets(sets);
	err = read_batch(sets, t, lay, items, count, ret, now, ok);
	for (size_t i = 0; !err && i < count; i++)
		if (!ok[2 * i] || !ok[2 * i + 1] || now[i][0] != items[i].goid ||
		    now[i][1] != items[i].labels)
			ret[i] = LABELS_TORN;
	return err;
}
