#include "leaks/leaks.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "leaks/leak_looks.h"

static struct error *must_check find(struct leak_looks *l)
{
	struct leaks *leaks = l->leaks;
	const struct heap_marks_info *info;
	struct error *err = leak_looks_take(l);

	if (err)
		return err;
	info = heap_marks_info(l->marks);
	leaks->heap_bytes = info->heap_bytes;
	leaks->reachable_bytes = info->marked_bytes;
	leaks->unread = info->unread;
	return leak_groups_make(l);
}

struct error *leaks_find(struct target *t, const struct image *img, const struct golayout *lay,
			 const struct leaks_options *options, struct leaks **ret)
{
	const struct wait_graph_options how = {.stop = options->stop};
	_cleanup_leaks_ struct leaks *leaks = calloc(1, sizeof(*leaks));
	struct leak_looks l = {.leaks = leaks, .t = t, .img = img, .lay = lay, .options = options};
	struct error *err;

	if (!leaks)
		return &error_no_memory;
	err = wait_graph_open(t, img, lay, &how, &leaks->waits);
	l.waits = leaks->waits;
	if (!err)
		err = find(&l);
	leak_looks_release(&l);
	if (!err)
		err = target_check(t);
	if (!err)
		*ret = take_ptr(leaks);
	return err;
}

void leaks_destroy(struct leaks *l)
{
	if (!l)
		return;
	wait_graph_destroy(l->waits);
	free(l->groups);
	free(l->members);
	free(l);
}
