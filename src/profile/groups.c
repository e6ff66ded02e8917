#include "profile/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "profile/profile_symbols.h"

struct grouping {
	struct groups groups;
	const struct profile *profile;
	const struct profile_symbols *symbols;
	enum group_key key;
	uint32_t label;            /* in the profile's strings; INTERN_FAILED: no sample has it */
	struct map index;          /* number of the name -> index in groups + 1 */
	struct map waits;          /* index in groups << 32 | wait -> index in its waits + 1 */
	struct symbol_stack stack; /* of the sample */
	struct map seen;           /* functions of the sample that were counted */
};

static void grouping_release(struct grouping *g)
{
	groups_release(&g->groups);
	map_release(&g->index);
	map_release(&g->waits);
	map_release(&g->seen);
	symbol_stack_release(&g->stack);
}

static struct group *group_of(struct grouping *g, uint32_t number, const char *name)
{
	uint64_t *place = map_at(&g->index, number);

	if (!place)
		return NULL;
	if (!*place) {
		if (!array_reserve(&g->groups.items, &g->groups.capacity, g->groups.count + 1))
			return NULL;
		g->groups.items[g->groups.count] = (struct group){.name = name};
		*place = ++g->groups.count;
	}
	return &g->groups.items[*place - 1];
}

static bool add_wait(struct grouping *g, struct group *group, uint32_t wait, uint64_t ns)
{
	uint64_t number = group - g->groups.items;
	uint64_t *place = map_at(&g->waits, number << 32 | wait);

	if (!place)
		return false;
	if (!*place) {
		if (!array_reserve(&group->waits, &group->wait_capacity, group->wait_count + 1))
			return false;
		group->waits[group->wait_count++].wait = wait;
		*place = group->wait_count;
	}
	group->waits[*place - 1].ns += ns;
	return true;
}

static struct error *add(struct grouping *g, const struct profile_sample *s, uint32_t number,
			 const char *name, bool self)
{
	struct group *group = group_of(g, number, name);

	if (!group)
		return &error_no_memory;
	group->count += s->count;
	group->total_ns += s->wall_ns;
	group->cpu_ns += s->cpu_ns;
	group->self_ns += self ? s->wall_ns : 0;
	group->state_ns[s->state] += s->wall_ns;
	if (s->state == PROFILE_WAITING && !add_wait(g, group, s->wait, s->wall_ns))
		return &error_no_memory;
	return NULL;
}

static uint32_t function_of(const struct grouping *g, size_t frame)
{
	return g->symbols->source_lines[g->symbols->lines[frame]].function;
}

static struct error *add_function(struct grouping *g, const struct profile_sample *s, size_t i)
{
	uint32_t function = function_of(g, g->stack.frames[i]);

	return add(g, s, function, intern_get(&g->symbols->strings, function), i == 0);
}

/* A function that is in the stack several times counts once. */
static struct error *add_functions(struct grouping *g, const struct profile_sample *s)
{
	struct error *err = NULL;

	map_release(&g->seen);
	for (size_t i = 0; i < g->stack.count && !err; i++) {
		uint64_t *seen = map_at(&g->seen, function_of(g, g->stack.frames[i]));

		if (!seen)
			return &error_no_memory;
		if (!*seen)
			err = add_function(g, s, i);
		*seen = 1;
	}
	return err;
}

static struct error *add_label(struct grouping *g, const struct profile_sample *s)
{
	for (uint32_t i = 0; i < s->label_count; i++)
		if (s->labels[i].key == g->label)
			return add(g, s, s->labels[i].value,
				   intern_get(&g->profile->strings, s->labels[i].value), false);
	return add(g, s, 0, "", false);
}

static struct error *add_sample(struct grouping *g, const struct profile_sample *s)
{
	struct error *err;

	switch (g->key) {
	case GROUP_STATE:
		return add(g, s, s->state, profile_state_name(s->state), false);
	case GROUP_WAIT:
		return add(g, s, s->wait, intern_get(&g->profile->strings, s->wait), false);
	case GROUP_LABEL:
		return add_label(g, s);
	default:
		err = symbols_stack(g->symbols, s, &g->stack);
		if (err)
			return err;
		return g->key == GROUP_FUNC ? add_functions(g, s)
					    : add_function(g, s, g->stack.count - 1);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->name, y->name);
}

static int by_wait_time(const void *a, const void *b)
{
	const struct group_wait *x = a, *y = b;

	return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : 0;
}

struct error *groups_make(const struct profile *p, const struct profile_symbols *symbols,
			  enum group_key key, const char *label, struct groups *ret)
{
	__attribute__((cleanup(grouping_release))) struct grouping g = {.profile = p,
									.symbols = symbols,
									.key = key};
	struct error *err = NULL;

	g.label =
		key == GROUP_LABEL ? intern_find(&p->strings, label, strlen(label)) : INTERN_FAILED;
	for (size_t i = 0; i < p->count && !err; i++)
		err = add_sample(&g, &p->samples[i]);
	if (err)
		return err;
	profile_totals(p, &g.groups.total_count, &g.groups.total_ns);
	for (size_t i = 0; i < g.groups.count; i++)
		if (g.groups.items[i].wait_count)
			qsort(g.groups.items[i].waits, g.groups.items[i].wait_count,
			      sizeof(struct group_wait), by_wait_time);
	if (g.groups.count)
		qsort(g.groups.items, g.groups.count, sizeof(*g.groups.items), by_time);
	*ret = g.groups;
	g.groups = (struct groups){0};
	return NULL;
}

void groups_release(struct groups *groups)
{
	for (size_t i = 0; i < groups->count; i++)
		free(groups->items[i].waits);
	free(groups->items);
	*groups = (struct groups){0};
}
