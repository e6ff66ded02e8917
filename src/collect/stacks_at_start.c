#include "collect/stacks_at_start.h"

#include <stdlib.h>

#include "agent/abi.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "goroutine/goroutines.h"

/* Of a stack that much is read: far more than the frames that are written. */
#define STACK_BYTES (64u << 10)
#define UNIT_BYTES 4096
/* Words of all of them at most. */
#define MOST_WORDS (4u << 20)

struct stacks_at_start {
	struct decoder *decoder;
	struct snapshot *snapshot;
	uint64_t start_ns;
	struct goroutine_set *set;
	struct map items;  /* goid -> its place in the snapshot + 1 */
	struct map stacks; /* the set's number -> the decoder's + 1 */
	uint32_t *order;   /* of the units */
	size_t units;
	size_t scanned;
};

static bool status_of(const struct goroutine_record *r, enum trace_status *ret)
{
	switch (goroutine_status(r)) {
	case G_WAITING:
	case G_PREEMPTED:
	case G_LEAKED:
		*ret = TRACE_WAITING;
		return true;
	case G_SYSCALL:
		*ret = TRACE_IN_SYSCALL;
		return true;
	default:
		return false;
	}
}

static struct error *must_check translate(struct stacks_at_start *s, uint32_t number, uint32_t *ret)
{
	struct stack stack = stacks_get(goroutine_set_stacks(s->set), number);
	uint64_t *place = map_at(&s->stacks, number);
	struct error *err;

	if (!place)
		return &error_no_memory;
	if (*place) {
		*ret = *place - 1;
		return NULL;
	}
	err = decoder_parked_stack(s->decoder, stack.pcs, stack.count, ret);
	*place = *ret + 1ull;
	return err;
}

/* For a goroutine that still had the state of the snapshot. */
static struct error *take(void *arg, const struct goroutine_record *before,
			  struct goroutine_record *now, const uint8_t *header)
{
	struct stacks_at_start *s = arg;
	const uint64_t *place = map_find(&s->items, now->goid);
	struct goroutine_details details;
	struct snapshot_goroutine *g;
	enum trace_status status;
	struct error *err;

	if (!place || !status_of(now, &status) || now->stack == STACK_NONE ||
	    now->flags & (GOROUTINE_UNKNOWN | GOROUTINE_ON_CPU))
		return NULL;
	g = &s->snapshot->items[*place - 1];
	if (g->status != status)
		return NULL;
	err = translate(s, now->stack, &g->stack);
	if (err || !g->stack)
		return err;
	goroutine_details(s->set, header, &details);
	if (goroutine_status(now) == G_WAITING)
		g->reason = decoder_reason(s->decoder, goroutine_wait_reason(now));
	if (details.wait_since && details.wait_since < s->start_ns)
		g->waited_ns = s->start_ns - details.wait_since;
	g->stood_ns = clock_now() - s->start_ns;
	return NULL;
}

static struct error *must_check index_goroutines(struct stacks_at_start *s)
{
	for (size_t i = 0; i < s->snapshot->count; i++) {
		uint64_t goid = s->snapshot->items[i].goid;
		uint64_t *place = goid == MAP_NO_KEY ? NULL : map_at(&s->items, goid);

		if (place)
			*place = i + 1;
		else if (goid != MAP_NO_KEY)
			return &error_no_memory;
	}
	return NULL;
}

static struct error *must_check plan(struct stacks_at_start *s)
{
	const struct goroutine_unit *units;
	struct error *err = goroutine_set_refresh(s->set);

	if (!err)
		err = goroutine_set_plan(s->set, UNIT_BYTES, &units, &s->units);
	if (err)
		return err;
	s->order = malloc((s->units + 1) * sizeof(*s->order));
	if (!s->order)
		return &error_no_memory;
	for (size_t i = 0; i < s->units; i++)
		s->order[i] = i;
	return NULL;
}

static void cleanup(struct stacks_at_start **s)
{
	stacks_at_start_close(*s);
}

struct error *stacks_at_start_open(struct target *t, const struct image *img,
				   const struct golayout *lay, struct decoder *decoder,
				   struct snapshot *snapshot, uint64_t start_ns,
				   struct stacks_at_start **ret)
{
	_cleanup_(cleanup) struct stacks_at_start *s = calloc(1, sizeof(*s));
	struct goroutine_options options = {.stack_limit = STACK_BYTES, .changed = take, .arg = s};
	struct error *err;

	if (!s)
		return &error_no_memory;
	s->decoder = decoder;
	s->snapshot = snapshot;
	s->start_ns = start_ns;
	err = goroutine_set_open(t, img, lay, &options, &s->set);
	if (err)
		return err;
	stacks_limit(goroutine_set_stacks(s->set), MOST_WORDS);
	err = index_goroutines(s);
	if (!err)
		err = plan(s);
	if (!err)
		*ret = take_ptr(s);
	return err;
}

struct error *stacks_at_start_read(struct stacks_at_start *s, uint64_t ns, bool *ret_done)
{
	uint64_t began = clock_now();
	struct error *err = NULL;

	while (!err && s->scanned < s->units && clock_now() - began < ns) {
		size_t scanned = 0;

		err = goroutine_set_scan(s->set, s->order + s->scanned, s->units - s->scanned,
					 &scanned);
		s->scanned += scanned;
	}
	*ret_done = s->scanned == s->units;
	return err;
}

void stacks_at_start_close(struct stacks_at_start *s)
{
	if (!s)
		return;
	goroutine_set_close(s->set);
	map_release(&s->items);
	map_release(&s->stacks);
	free(s->order);
	free(s);
}
