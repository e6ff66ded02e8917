/* The goroutines of a core file: a single moment, without times. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "dump/dump.h"
#include "lib/goroutine_filter.h"
#include "lib/why.h"

/* Deeper stacks are cut. */
#define STACK_LIMIT (1u << 20)
/* Only creators with so many goroutines are named. */
#define LEAST_OF_CREATOR 10
#define MOST_CREATORS (1u << 16)

struct group {
	uint64_t go_pc;
	size_t count;
	size_t at_place;
	const struct dump_goroutine *one; /* of those at the most frequent stack */
	uint64_t oldest;
};

struct counting {
	const struct dump *dump;
	struct why_numbers *n;
	struct map index; /* go_pc -> group + 1 */
	struct map stacks;
	struct group *groups;
	size_t count;
};

static bool count(struct counting *c, const struct dump_goroutine *g)
{
	uint64_t *at = map_at(&c->index, g->go_pc), *same;
	struct group *group;

	if (!at)
		return false;
	if (!*at && c->count == MOST_CREATORS)
		return true;
	if (!*at)
		*at = ++c->count;
	group = &c->groups[*at - 1];
	group->go_pc = g->go_pc;
	group->count++;
	same = map_at(&c->stacks, (*at - 1) << 32 | g->stack);
	if (!same)
		return false;
	if (++*same > group->at_place) {
		group->at_place = *same;
		group->one = g;
	}
	if (g->wait_since && (!group->oldest || g->wait_since < group->oldest))
		group->oldest = g->wait_since;
	return true;
}

static void describe(const struct counting *c, const struct group *group, const struct code *code,
		     struct why_creator *ret)
{
	const char *names[WHY_MOST_FRAMES];
	struct stack stack = stacks_get(goroutine_set_stacks(c->dump->set), group->one->stack);
	struct stack_view view = {.state = (enum profile_state)state_of(group->one->status),
				  .wait = dump_wait_reason(c->dump, group->one),
				  .functions = names,
				  .count = why_names(code, stack, names)};
	size_t at;

	why_name_creator(code, group->go_pc, c->n, ret);
	for (size_t i = 0; i < WHY_PARTS; i++)
		ret->alive[i] = group->count;
	ret->first = group->count;
	ret->at_place = group->at_place;
	ret->is_work = stack_kind_of(&view, &at) == STACK_WORK;
	ret->place = why_keep(c->n, at < view.count ? names[at] : "");
	ret->wait = why_keep(c->n, view.wait);
	if (group->oldest && group->oldest < c->dump->taken)
		ret->oldest = (c->dump->taken - group->oldest) / 1e9;
}

static bool give(struct counting *c, const struct code *code)
{
	struct why_numbers *n = c->n;

	n->creators = calloc(c->count + 1, sizeof(*n->creators));
	for (size_t i = 0; n->creators && i < c->count; i++)
		if (c->groups[i].count >= LEAST_OF_CREATOR)
			describe(c, &c->groups[i], code, &n->creators[n->creator_count++]);
	return n->creators;
}

struct error *why_core(struct gospect_target *t, struct why_numbers *n)
{
	const struct dump_options how = {.stack_limit = STACK_LIMIT, .stop = t->cancel};
	const struct code code = {.functions = &t->image->functions};
	_cleanup_dump_ struct dump *dump = NULL;
	struct counting c = {.n = n};
	struct error *err = dump_collect(t->target, t->image, t->layout, &how, &dump);
	bool done = true;

	if (err)
		return err == &error_stopped ? err : target_explain(t->target, err);
	c.dump = dump;
	n->goroutines = dump->count;
	c.groups = calloc(MOST_CREATORS, sizeof(*c.groups));
	for (size_t i = 0; c.groups && done && i < dump->count; i++)
		done = dump_has_stack(&dump->items[i]) ? count(&c, &dump->items[i]) : true;
	done = c.groups && done && give(&c, &code);
	map_release(&c.index);
	map_release(&c.stacks);
	free(c.groups);
	return done ? NULL : &error_no_memory;
}
