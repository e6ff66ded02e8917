#include "collect/counters.h"

#include "golayout/view.h"
#include "image/data_refs.h"

/* No program has such a large heap: the address found is not the heap's. */
#define MOST_HEAP (1ull << 46)

/*
 * Without symbols: gcinit() (mgc.go) sets a variable of the sweeper first, and then calls
 * gcController.init(); so the second reference in its code is to gcController. In Go 1.18 init() is
 * inlined, and begins with the field behind the first word. Held against the symbol for Go 1.17 to
 * 1.27 by tests/e2e/test_trace_attach.py.
 */
static uint64_t find_by_rule(const struct image *img, const struct golayout *lay)
{
	_cleanup_data_refs_ struct data_refs refs = {0};

	if (error_dropped(data_refs_of(img, "runtime.gcinit", &refs)) || refs.count < 2)
		return 0;
	return refs.items[1] - (lay->minor == 18 ? 8 : 0);
}

void counters_init(struct counters *c, const struct image *img, const struct golayout *lay)
{
	*c = (struct counters){.controller = image_symbol(img, "runtime.gcController")};
	if (!c->controller)
		c->controller = find_by_rule(img, lay);
}

static size_t add(uint64_t value, uint64_t *last, enum trace_kind kind, struct trace_event *ret)
{
	if (value == *last)
		return 0;
	*last = value;
	*ret = (struct trace_event){.kind = kind, .arg = value, .m = TRACE_NO_M, .p = TRACE_NO_P};
	return 1;
}

size_t counters_read(struct counters *c, struct target *t, const struct golayout *lay,
		     struct trace_event ret[COUNTERS_MAX_EVENTS])
{
	const struct golayout_numbers *n = &lay->n;
	uint64_t goal_at = gc_at_percent_goal(n, c->controller);
	uint32_t procs = 0;
	uint64_t live = 0, goal = 0;
	struct target_range ranges[] = {
		{lay->v.gomaxprocs, sizeof(procs), &procs},
		{gc_at_heap_live(n, c->controller), sizeof(live), &live},
		{goal_at ? goal_at : gc_at_heap_goal(n, c->controller), sizeof(goal), &goal},
	};
	size_t count = c->controller && ranges[2].address ? 3 : 1, done = 0, events;

	if (error_dropped(target_read_ranges(t, ranges, count, &done)) || done < count)
		return 0;
	events = add(procs, &c->gomaxprocs, TRACE_GOMAXPROCS, ret);
	if (count == 1 || !live || live > MOST_HEAP || !goal)
		return events;
	events += add(live, &c->heap_alloc, TRACE_HEAP_ALLOC, ret + events);
	/* Without a goal (GOGC=off) it is the largest number. */
	if (goal < INT64_MAX)
		events += add(goal, &c->heap_goal, TRACE_HEAP_GOAL, ret + events);
	return events;
}
