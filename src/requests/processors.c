#include "requests/processors.h"

#include <stdlib.h>

#include "base/array.h"

/* More than any program has. A hostile trace may name any number, and each takes 2 KB. */
#define MAX_P (1u << 16)

struct processor *processors_of(struct processors *all, uint64_t id)
{
	uint64_t *place = id < MAX_P ? map_at(&all->index, id) : NULL;
	struct processor *p;

	if (!place)
		return NULL;
	if (*place)
		return all->items[*place - 1];
	if (!array_reserve(&all->items, &all->capacity, all->count + 1))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->id = id;
	all->items[all->count++] = p;
	*place = all->count;
	return p;
}

/* One in a system call does not keep the world from stopping: it is taken at once. */
static bool is_busy(enum processor_state state)
{
	return state == PROCESSOR_SCHEDULING || state == PROCESSOR_RUNNING;
}

static void set_state(struct processors *all, struct processor *p, enum processor_state state)
{
	all->busy -= is_busy(p->state);
	all->busy += is_busy(state);
	p->state = state;
}

void processor_change(struct processors *all, struct processor *p, enum processor_state state,
		      uint64_t now)
{
	p->ns[p->state] += now - p->since;
	p->since = now;
	p->is_new = false;
	set_state(all, p, state);
}

void processor_begin(struct processors *all, struct processor *p, enum processor_state state)
{
	p->is_new = true;
	set_state(all, p, state);
}

void processor_run(struct processor *p, uint64_t g, uint32_t start, uint64_t now)
{
	p->run = (struct processor_run){.g = g, .start = start, .begin = now};
}

void processor_leave(struct processor *p, uint32_t stack, uint32_t start, uint64_t now)
{
	if (!p->run.g)
		return;
	p->run.end = now;
	p->run.stack = stack;
	p->run.start = start ? start : p->run.start;
	p->runs[p->run_count++ % PROCESSOR_RUNS] = p->run;
	p->run = (struct processor_run){0};
}

static uint64_t overlap(const struct processor_run *run, uint64_t begin, uint64_t end)
{
	uint64_t from = run->begin > begin ? run->begin : begin;
	uint64_t to = run->end < end ? run->end : end;

	return to > from ? to - from : 0;
}

bool processor_holder(const struct processor *p, uint64_t begin, uint64_t end,
		      struct processor_run *ret, uint64_t *ret_ns)
{
	size_t count = p->run_count < PROCESSOR_RUNS ? p->run_count : PROCESSOR_RUNS;
	uint64_t most = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t ns = overlap(&p->runs[i], begin, end);

		if (ns <= most)
			continue;
		most = ns;
		*ret = p->runs[i];
	}
	*ret_ns = most;
	return most;
}

bool processor_last(const struct processor *p, uint64_t since, struct processor_run *ret)
{
	const struct processor_run *last = &p->runs[(p->run_count - 1) % PROCESSOR_RUNS];

	if (p->run.g) {
		*ret = p->run;
		return true;
	}
	if (!p->run_count || last->end < since)
		return false;
	*ret = *last;
	return true;
}

static int by_id(const void *a, const void *b)
{
	const struct processor *x = *(struct processor *const *)a;
	const struct processor *y = *(struct processor *const *)b;

	return (x->id > y->id) - (x->id < y->id);
}

void processors_complete(struct processors *all, uint64_t now)
{
	for (size_t i = 0; i < all->count; i++)
		processor_change(all, all->items[i], all->items[i]->state, now);
	map_release(&all->index);
	if (all->count)
		qsort(all->items, all->count, sizeof(struct processor *), by_id);
}

void processors_release(struct processors *all)
{
	for (size_t i = 0; i < all->count; i++)
		free(all->items[i]);
	free(all->items);
	map_release(&all->index);
}
