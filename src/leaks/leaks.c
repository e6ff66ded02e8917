#include "leaks/leaks.h"

#include <stdlib.h>
#include <string.h>

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

static bool is_same_place(const struct wait_place *a, const struct wait_place *b)
{
	return a->line == b->line && !strcmp(a->function, b->function) && !strcmp(a->file, b->file);
}

static bool is_same_group(const struct leak_group *a, const struct leak_group *b)
{
	return a->kind == b->kind && a->is_nil == b->is_nil &&
	       is_same_place(&a->created_by, &b->created_by) && is_same_place(&a->place, &b->place);
}

/* A place may have certain and suspected ones. */
static int64_t count_before(const struct leaks *earlier, const struct leak_group *group)
{
	int64_t certain = 0, suspected = 0;

	for (size_t i = 0; i < earlier->group_count; i++)
		if (is_same_group(&earlier->groups[i], group))
			*(earlier->groups[i].is_certain ? &certain : &suspected) +=
				(int64_t)earlier->groups[i].count;
	return group->is_certain ? certain : suspected;
}

void leaks_compare(struct leaks *later, const struct leaks *earlier)
{
	if (later->waits->taken <= earlier->waits->taken)
		return;
	later->compared_ns = later->waits->taken - earlier->waits->taken;
	for (size_t i = 0; i < later->group_count; i++)
		later->groups[i].growth =
			(int64_t)later->groups[i].count - count_before(earlier, &later->groups[i]);
}
