/* Leaked goroutines by the place that created them, with what they keep. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "leaks/leak_looks.h"

#define MAX_INLINED 64
#define MINUTE 60000000000ull
/* Suspects are so many goroutines of one go statement, of which nearly each waits for an object of
 * its own, and some have waited for more than a minute. */
#define MANY 10

struct grouping {
	struct leak_looks *l;
	struct leaks *leaks;
	size_t capacity;
	uint32_t *items; /* goroutines, of one group after the other */
	size_t count;
};

/* ---- places ---- */

static struct wait_place place_of_pc(const struct leak_looks *l, uint64_t pc)
{
	struct go_frame frames[MAX_INLINED];
	size_t n = pc ? pclntab_frames(&l->img->functions, pc, frames, MAX_INLINED) : 0;

	if (!n)
		return (struct wait_place){"", "", 0};
	/* As the runtime prints it: the function that is not inlined, and the line of the go
	 * statement. */
	return (struct wait_place){frames[n - 1].function, frames[0].file, frames[0].line};
}

static const struct wait_edge *edge_of(const struct leak_looks *l, uint32_t i)
{
	const struct wait_goroutine *g = &l->waits->goroutines[i];

	return g->edge_count ? &l->waits->edges[g->first_edge] : NULL;
}

static bool is_nil(const struct leak_looks *l, uint32_t i)
{
	const struct wait_edge *e = edge_of(l, i);

	return !e || !e->address;
}

static enum wait_kind kind_of(const struct leak_looks *l, uint32_t i)
{
	const struct wait_edge *e = edge_of(l, i);

	return e ? e->kind : WAIT_SELECT;
}

static int compare_texts(const char *a, const char *b)
{
	return a == b ? 0 : strcmp(a, b);
}

/* Those of one group are equal. */
static int compare_groups(const struct leak_looks *l, uint32_t a, uint32_t b)
{
	const struct wait_goroutine *x = &l->waits->goroutines[a], *y = &l->waits->goroutines[b];
	int order;

	if (l->states[a] != l->states[b])
		return l->states[a] < l->states[b] ? -1 : 1;
	if (x->go_pc != y->go_pc)
		return x->go_pc < y->go_pc ? -1 : 1;
	order = compare_texts(x->place.function, y->place.function);
	if (order)
		return order;
	if (x->place.line != y->place.line)
		return x->place.line < y->place.line ? -1 : 1;
	if (kind_of(l, a) != kind_of(l, b))
		return kind_of(l, a) < kind_of(l, b) ? -1 : 1;
	return (int)is_nil(l, a) - (int)is_nil(l, b);
}

static int compare_goroutines(const void *a, const void *b, void *arg)
{
	const struct leak_looks *l = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int order = compare_groups(l, x, y);
	uint64_t i = l->waits->goroutines[x].id, k = l->waits->goroutines[y].id;

	return order ? order : (i > k) - (i < k);
}

/* ---- groups ---- */

static void add_ages(const struct leak_looks *l, struct leak_group *group)
{
	uint64_t now = l->waits->taken;

	for (size_t i = 0; i < group->count; i++) {
		uint64_t since = l->waits->goroutines[group->goroutines[i]].since;
		uint64_t age = since && since <= now ? now - since : 0;

		/* The runtime notes the time at a collection: younger ones have none yet. */
		group->recent += age < MINUTE;
		if (!age)
			continue;
		if (age > group->oldest)
			group->oldest = age;
		if (!group->youngest || age < group->youngest)
			group->youngest = age;
	}
}

static const char *why_certain(const struct leak_looks *l, const struct leak_group *group)
{
	if (group->is_nil)
		return group->kind == WAIT_CHANNEL
			       ? "nothing can send to or receive from a nil channel"
			       : "a select without channels never ends";
	if (group->is_select)
		return "no global variable, no finalizer and no goroutine that can run leads to "
		       "a channel of the select";
	return group->kind == WAIT_CHANNEL
		       ? "no global variable, no finalizer and no goroutine that can run leads to "
			 "the channel"
		       : "no global variable, no finalizer and no goroutine that can run leads to "
			 "the object";
}

static const char *why_not_certain(const struct leak_looks *l)
{
	return l->waits->truncated ? "nothing was found that can wake them, but there are more "
				     "waits than gospect reads"
				   : "nothing was found that can wake them, but a goroutine ran at "
				     "every look, and its registers are not known";
}

static struct error *must_check add_group(struct grouping *g, uint32_t *members, size_t count)
{
	struct leaks *leaks = g->leaks;
	const struct leak_looks *l = g->l;
	const struct wait_goroutine *one = &l->waits->goroutines[members[0]];
	const struct wait_edge *e = edge_of(l, members[0]);
	struct leak_group *group;

	if (!array_reserve(&leaks->groups, &g->capacity, leaks->group_count + 1))
		return &error_no_memory;
	group = &leaks->groups[leaks->group_count++];
	*group = (struct leak_group){
		.created_by = place_of_pc(l, one->go_pc),
		.place = one->place,
		.kind = kind_of(l, members[0]),
		.side = e ? e->side : WAIT_ANY,
		.is_nil = is_nil(l, members[0]),
		.is_select = !e || e->is_case || e->kind == WAIT_SELECT,
		.goroutines = members,
		.count = count,
	};
	if (l->states[members[0]] == LEAK_CANDIDATE) {
		group->is_certain = !leaks->runs && !l->waits->truncated;
		group->why = group->is_certain ? why_certain(l, group) : why_not_certain(l);
	} else {
		group->why = "each waits for an object of its own, some for more than a minute; "
			     "something leads to these objects";
	}
	add_ages(l, group);
	return NULL;
}

/* ---- suspects ---- */

static int compare_words(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Whether nine of ten wait for an object of their own. */
static struct error *must_check has_own_objects(const struct leak_looks *l, const uint32_t *members,
						size_t count, bool *ret)
{
	_cleanup_free_ uint64_t *objects = malloc(count * sizeof(*objects));
	size_t distinct = 0;

	if (!objects)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		objects[i] = edge_of(l, members[i]) ? edge_of(l, members[i])->address : 0;
	qsort(objects, count, sizeof(*objects), compare_words);
	for (size_t i = 0; i < count; i++)
		distinct += objects[i] && (!i || objects[i] != objects[i - 1]);
	*ret = distinct * 10 >= count * 9;
	return NULL;
}

/* *ret_young: it is one only if it grows. */
static struct error *must_check is_suspect(const struct leak_looks *l, const uint32_t *members,
					   size_t count, bool *ret, bool *ret_young)
{
	uint64_t now = l->waits->taken, oldest = 0;

	*ret = false;
	if (count < MANY)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		uint64_t since = l->waits->goroutines[members[i]].since;

		if (since && since <= now && now - since > oldest)
			oldest = now - since;
	}
	*ret_young = oldest < MINUTE;
	return has_own_objects(l, members, count, ret);
}

static struct error *must_check make_groups(struct grouping *g)
{
	const struct leak_looks *l = g->l;
	struct error *err = NULL;
	bool keep, is_young;

	for (size_t i = 0, n; i < g->count && !err; i += n) {
		for (n = 1; i + n < g->count; n++)
			if (compare_groups(l, g->items[i], g->items[i + n]))
				break;
		keep = l->states[g->items[i]] == LEAK_CANDIDATE;
		is_young = false;
		if (!keep)
			err = is_suspect(l, g->items + i, n, &keep, &is_young);
		if (!err && keep)
			err = add_group(g, g->items + i, n);
		if (!err && keep)
			g->leaks->groups[g->leaks->group_count - 1].is_young = is_young;
	}
	return err;
}

/* ---- what they keep ---- */

static struct error *must_check mark_group(struct leak_looks *l, const struct leak_group *group)
{
	struct error *err = NULL;

	for (size_t i = 0; i < group->count && !err; i++) {
		const struct wait_goroutine *g = &l->waits->goroutines[group->goroutines[i]];

		for (uint32_t k = 0; k < g->edge_count; k++)
			heap_marks_add(l->marks, l->waits->edges[g->first_edge + k].address);
		err = leak_looks_add(l, group->goroutines[i]);
	}
	return err ? err : heap_marks_drain(l->marks);
}

/* Leaked groups, of which all others are marked. */
struct group_range {
	struct leak_group **items;
	size_t count;
};

static struct error *must_check mark_range(struct leak_looks *l, struct group_range range)
{
	struct error *err = NULL;

	for (size_t i = 0; i < range.count && !err; i++)
		err = mark_group(l, range.items[i]);
	return err;
}

/*
 * What a group retains is what its goroutines alone lead to: it is left when the objects of all
 * other groups are marked. Each half of the groups is marked once for the other half, so a group is
 * marked once for each time that their number can be halved.
 */
static struct error *must_check count_retained(struct leak_looks *l, struct group_range range)
{
	size_t middle = range.count / 2, place = heap_marks_place(l->marks);
	const struct group_range low = {range.items, middle},
				 high = {range.items + middle, range.count - middle};
	uint64_t before = heap_marks_bytes(l->marks);
	struct error *err;

	if (range.count == 1) {
		err = mark_group(l, range.items[0]);
		range.items[0]->retained += heap_marks_bytes(l->marks) - before;
		return err;
	}
	err = mark_range(l, high);
	if (!err)
		err = count_retained(l, low);
	heap_marks_take_back(l->marks, place);
	if (!err)
		err = mark_range(l, low);
	return err ? err : count_retained(l, high);
}

static uint64_t stack_bytes(const struct leak_looks *l, const struct leak_group *group)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < group->count; i++) {
		const struct wait_goroutine *g = &l->waits->goroutines[group->goroutines[i]];

		bytes += g->stack_hi - g->stack_lo;
	}
	return bytes;
}

/* Of all leaked groups; together they keep also what several of them lead to. */
static struct error *must_check count_leaked(struct leak_looks *l, struct group_range range)
{
	struct leaks *leaks = l->leaks;
	size_t place = heap_marks_place(l->marks);
	uint64_t before = heap_marks_bytes(l->marks);
	struct error *err = mark_range(l, range);

	leaks->retained = heap_marks_bytes(l->marks) - before;
	heap_marks_take_back(l->marks, place);
	for (size_t i = 0; i < range.count; i++) {
		range.items[i]->retained = stack_bytes(l, range.items[i]);
		leaks->retained += range.items[i]->retained;
	}
	return err || !range.count ? err : count_retained(l, range);
}

static int compare_shown(const void *a, const void *b)
{
	const struct leak_group *x = a, *y = b;

	if (x->is_young != y->is_young)
		return x->is_young ? 1 : -1;
	if (x->is_certain != y->is_certain)
		return x->is_certain ? -1 : 1;
	if (x->retained != y->retained)
		return x->retained > y->retained ? -1 : 1;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return (x->goroutines > y->goroutines) - (x->goroutines < y->goroutines);
}

static struct error *must_check count_all_retained(struct leak_looks *l)
{
	struct leaks *leaks = l->leaks;
	_cleanup_free_ struct leak_group **leaked =
		calloc(leaks->group_count + 1, sizeof(struct leak_group *));
	struct group_range range = {leaked, 0};
	struct error *err;

	if (!leaked)
		return &error_no_memory;
	for (size_t i = 0; i < leaks->group_count; i++) {
		struct leak_group *group = &leaks->groups[i];

		if (l->states[group->goroutines[0]] == LEAK_CANDIDATE)
			leaked[range.count++] = group;
		if (group->is_certain)
			leaks->certain += group->count;
		else if (!group->is_young)
			leaks->suspected += group->count;
		leaks->young_count += group->is_young;
	}
	err = count_leaked(l, range);
	if (leaks->group_count)
		qsort(leaks->groups, leaks->group_count, sizeof(*leaks->groups), compare_shown);
	leaks->group_count -= leaks->young_count;
	return err;
}

/* As Go 1.27: main that ends with select {} is meant to wait for ever. */
static bool is_waiting_main(const struct leak_looks *l, uint32_t i)
{
	return l->waits->goroutines[i].id == 1 && kind_of(l, i) == WAIT_SELECT && is_nil(l, i);
}

struct error *leak_groups_make(struct leak_looks *l)
{
	struct grouping g = {.l = l, .leaks = l->leaks};
	struct error *err;

	g.items = malloc((l->count + 1) * sizeof(*g.items));
	if (!g.items)
		return &error_no_memory;
	l->leaks->members = g.items;
	for (size_t i = 0; i < l->count; i++)
		if (l->states[i] == LEAK_CANDIDATE ? !is_waiting_main(l, (uint32_t)i)
						   : leak_looks_may_be_leaked(l, i))
			g.items[g.count++] = (uint32_t)i;
	if (g.count)
		qsort_r(g.items, g.count, sizeof(*g.items), compare_goroutines, l);
	err = make_groups(&g);
	return err ? err : count_all_retained(l);
}
