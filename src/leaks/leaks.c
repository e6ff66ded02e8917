#include "leaks/leaks.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "leaks/leak_looks.h"

/* So many goroutines more are no chance. */
#define LEAST_GROWTH 10

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

	for (size_t i = 0; i < earlier->group_count + earlier->young_count; i++)
		if (is_same_group(&earlier->groups[i], group))
			*(earlier->groups[i].is_certain ? &certain : &suspected) +=
				(int64_t)earlier->groups[i].count;
	return group->is_certain ? certain : suspected;
}

static uint64_t id_of(const struct leaks *l, const struct leak_group *group, size_t i)
{
	return l->waits->goroutines[group->goroutines[i]].id;
}

/* How many goroutines are in both groups, each of which has them in the order of their ids. */
static size_t count_lasting(const struct leaks *later, const struct leak_group *group,
			    const struct leaks *earlier, const struct leak_group *before)
{
	size_t i = 0, k = 0, n = 0;

	while (i < group->count && k < before->count) {
		uint64_t now = id_of(later, group, i), then = id_of(earlier, before, k);

		n += now == then;
		i += now <= then;
		k += then <= now;
	}
	return n;
}

/* Hardly one of those that waited at the earlier time has gone on since, and many came. */
static bool only_grows(const struct leaks *later, const struct leak_group *group,
		       const struct leaks *earlier)
{
	for (size_t i = 0; i < earlier->group_count + earlier->young_count; i++) {
		const struct leak_group *before = &earlier->groups[i];

		if (!before->is_certain && is_same_group(before, group) &&
		    group->growth >= LEAST_GROWTH &&
		    count_lasting(later, group, earlier, before) * 10 >= before->count * 9)
			return true;
	}
	return false;
}

/* Shows those of the young groups that only grow. */
static void choose_young(struct leaks *later, const struct leaks *earlier)
{
	size_t end = later->group_count + later->young_count;

	for (size_t i = later->group_count; i < end; i++) {
		struct leak_group group = later->groups[i];

		if (!only_grows(later, &group, earlier))
			continue;
		group.is_young = false;
		group.why = "each waits for an object of its own, and they only become more; "
			    "something leads to these objects";
		later->groups[i] = later->groups[later->group_count];
		later->groups[later->group_count++] = group;
		later->young_count--;
		later->suspected += group.count;
	}
}

void leaks_compare(struct leaks *later, const struct leaks *earlier)
{
	if (later->waits->taken <= earlier->waits->taken)
		return;
	later->compared_ns = later->waits->taken - earlier->waits->taken;
	for (size_t i = 0; i < later->group_count + later->young_count; i++)
		later->groups[i].growth =
			(int64_t)later->groups[i].count - count_before(earlier, &later->groups[i]);
	choose_young(later, earlier);
}
