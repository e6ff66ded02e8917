#include "requests/inferred_spans.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Results for a stack that are not functions: not known yet; in none; frames are missing. */
enum { UNKNOWN, OUTSIDE, CUT, FIRST };

/* The most calls of parts, one within the other; further in they are not counted. */
enum { MAX_OPEN = 16 };

struct open_part {
	uint32_t function;
	bool is_client;
	uint64_t begin;
};

/* The state of a goroutine. */
struct inferred_span {
	struct open_part open[MAX_OPEN]; /* calls of parts, the outermost first */
	uint32_t open_count;
	size_t request; /* index + 1; 0: in none of the functions */
	size_t last;    /* likewise, of the last call; its status may come after its return */
	uint64_t calls; /* number of open recorded calls */
	uint64_t root;  /* of a request that was found by stacks */
	bool seen;
	bool outside;    /* at some time of the trace it was in no call */
	bool recorded;   /* its calls are recorded, so stacks add nothing */
	struct span ran; /* running time since the last known place; state 0: none */
};

static uint64_t find_root(const struct inferred_spans *s, const struct span_tables *tables,
			  uint32_t stack)
{
	uint64_t found = OUTSIDE;
	size_t count;
	const uint32_t *frames = span_stack(tables, stack, &count);

	for (size_t i = 0; i < count; i++) {
		uint32_t function = span_frame(tables, frames[i]).function;
		const char *name = intern_get(&tables->texts, function);

		if (!strcmp(name, "[truncated]"))
			found = found < FIRST ? CUT : found;
		else if (!regexec(s->root, name, 0, NULL, 0))
			found = (uint64_t)function + FIRST; /* the outermost one counts */
	}
	return found;
}

/* Properties of a function, in bits; 0: no memory. */
enum { SEEN = 1, ROOT = 2, TOLD = 4, IN_STACKS = 8, PART = 16, CLIENT = 32 };

static uint64_t *function_of(struct inferred_spans *s, const struct span_tables *tables,
			     uint32_t function)
{
	uint64_t *known = map_at(&s->functions, function);
	const char *name = intern_get(&tables->texts, function);

	if (!known || *known)
		return known;
	*known = regexec(s->root, name, 0, NULL, 0) ? SEEN : SEEN | ROOT;
	if (s->part && !regexec(s->part, name, 0, NULL, 0))
		*known |= PART;
	else if (s->client && !regexec(s->client, name, 0, NULL, 0))
		*known |= PART | CLIENT;
	return known;
}

static bool is_root(struct inferred_spans *s, const struct span_tables *tables, uint32_t function)
{
	const uint64_t *known = function_of(s, tables, function);

	return known && *known & ROOT;
}

static uint64_t root_of(struct inferred_spans *s, const struct span_tables *tables, uint32_t stack)
{
	uint64_t *place = stack ? map_at(&s->roots, stack) : NULL;

	if (!place)
		return CUT;
	if (!*place)
		*place = find_root(s, tables, stack);
	return *place;
}

static struct inferred_span *inferred_span_of(struct inferred_spans *s, uint64_t g)
{
	uint64_t *place = map_at(&s->lives, g);

	if (place && !*place)
		*place = (uintptr_t)calloc(1, sizeof(struct inferred_span));
	return place ? (struct inferred_span *)(uintptr_t)*place : NULL;
}

/* Credits the running time to the open request. */
static struct error *must_check credit_ran(struct inferred_spans *s, struct inferred_span *life,
					   bool edge)
{
	struct traced_request *item = &s->requests->items[life->request - 1];

	if (!life->ran.state)
		return NULL;
	if (edge)
		item->edge_ns += life->ran.end - life->ran.begin;
	return request_credit(item, &life->ran);
}

static struct error *must_check open_request(struct inferred_spans *s,
					     const struct span_tables *tables,
					     struct inferred_span *life, uint64_t root, uint64_t g)
{
	const char *name = intern_get(&tables->texts, root - FIRST);

	if (!requests_new(s->requests, name, g))
		return &error_no_memory;
	life->request = s->requests->count;
	life->root = root;
	return credit_ran(s, life, true);
}

/* Handles a time at which the goroutine's place is known: the end of its running time. */
static struct error *must_check pass(struct inferred_spans *s, const struct span_tables *tables,
				     struct inferred_span *life, uint64_t root, uint64_t g)
{
	struct error *err = NULL;
	uint64_t *known;

	if (root >= FIRST && !life->request) {
		known = function_of(s, tables, root - FIRST);
		if (known)
			*known |= IN_STACKS;
		err = open_request(s, tables, life, root, g);
	} else if (life->request) {
		err = credit_ran(s, life, root == OUTSIDE);
		if (root == OUTSIDE)
			life->request = 0;
	}
	life->outside |= root == OUTSIDE;
	life->ran.state = 0;
	return err;
}

/* ---- calls of parts ---- */

/* Another call, further out, that has it within. */
static bool is_counted_in(const struct open_part *outer, const struct open_part *part)
{
	return outer->function == part->function || (outer->is_client && part->is_client);
}

/* Ends the calls from this one on. Of calls of one function the outermost counts. */
static struct error *must_check close_parts(struct inferred_spans *s, struct inferred_span *life,
					    uint32_t first, uint64_t now)
{
	struct error *err = NULL;

	for (uint32_t i = first; !err && life->request && i < life->open_count; i++) {
		struct request_part part = {life->open[i].function, now - life->open[i].begin, 1};
		uint32_t k = 0;

		while (k < i && !is_counted_in(&life->open[k], &life->open[i]))
			k++;
		if (k == i)
			err = request_add_part(&s->requests->items[life->request - 1], &part);
	}
	life->open_count = first < life->open_count ? first : life->open_count;
	return err;
}

/* A call of a function, or a return from it; one without its call began before the request. */
static struct error *must_check pass_part(struct inferred_spans *s, struct inferred_span *life,
					  const struct span *span, bool is_client)
{
	uint32_t i = life->open_count;

	if (span->moment == SPAN_CALL) {
		if (life->request && life->open_count < MAX_OPEN)
			life->open[life->open_count++] =
				(struct open_part){span->function, is_client, span->begin};
		return NULL;
	}
	while (i && life->open[i - 1].function != span->function)
		i--;
	return i ? close_parts(s, life, i - 1, span->begin) : NULL;
}

/* It was stopped before its frame existed; the call is recorded at that point. */
static bool is_at_its_beginning(const struct inferred_spans *s, const struct inferred_span *life,
				const struct span *span)
{
	return life->request && life->root == (uint64_t)span->function + FIRST &&
	       s->requests->items[life->request - 1].begin;
}

static struct error *must_check begin_call(struct inferred_spans *s,
					   const struct span_tables *tables,
					   struct inferred_span *life, const struct span *span)
{
	struct error *err = NULL;

	life->outside = true;
	if (life->calls++)
		return NULL;
	life->open_count = 0;
	if (is_at_its_beginning(s, life, span)) {
		request_reset(&s->requests->items[life->request - 1]);
		life->last = life->request;
		life->ran.state = 0;
		return NULL;
	}
	/* The open request ended unseen. */
	if (life->request)
		err = credit_ran(s, life, true);
	life->ran.state = 0;
	if (!err && !requests_new(s->requests, intern_get(&tables->texts, span->function), span->g))
		err = &error_no_memory;
	life->request = life->last = s->requests->count;
	return err;
}

static struct error *must_check end_call(struct inferred_spans *s, const struct span_tables *tables,
					 struct inferred_span *life, const struct span *span)
{
	uint64_t root = (uint64_t)span->function + FIRST;
	bool began = life->calls || life->outside;
	struct error *err = NULL;

	if (life->calls && --life->calls)
		return NULL;
	err = close_parts(s, life, 0, span->begin);
	if (err)
		return err;
	if (life->request)
		err = credit_ran(s, life, false);
	else if (life->ran.state)
		err = open_request(s, tables, life, root, span->g);
	if (life->request && !began) {
		s->requests->items[life->request - 1].before = true;
		s->requests->items[life->request - 1].edge_ns = 0;
	}
	life->ran.state = 0;
	life->last = life->request ?: life->last;
	life->request = 0;
	life->outside = true;
	return err;
}

/* Handles a recorded call or return. */
static struct error *must_check pass_moment(struct inferred_spans *s,
					    const struct span_tables *tables,
					    struct inferred_span *life, const struct span *span)
{
	uint64_t *known = function_of(s, tables, span->function);

	if (!known)
		return &error_no_memory;
	if (*known & PART && !(*known & ROOT))
		return pass_part(s, life, span, *known & CLIENT);
	if (!(*known & ROOT))
		return NULL;
	*known |= TOLD;
	life->recorded = true;
	return span->moment == SPAN_CALL ? begin_call(s, tables, life, span)
					 : end_call(s, tables, life, span);
}

/* Of a goroutine that is one request: only calls of parts count. */
static struct error *must_check pass_moment_within(struct inferred_spans *s,
						   const struct span_tables *tables,
						   struct inferred_span *life,
						   const struct span *span)
{
	const uint64_t *known = function_of(s, tables, span->function);

	if (!known)
		return &error_no_memory;
	if ((*known & (PART | ROOT)) != PART)
		return NULL;
	return pass_part(s, life, span, *known & CLIENT);
}

static void take_facts(struct inferred_spans *s, const struct inferred_span *life,
		       const struct span *span)
{
	size_t request = life->request ?: life->last;

	if (request)
		request_take_facts(&s->requests->items[request - 1], &span->facts);
}

/* Of the open request. Where calls are not recorded, the sample's stack says whether it is in it.
 */
static struct error *must_check take_sample(struct inferred_spans *s,
					    const struct span_tables *tables,
					    const struct inferred_span *life,
					    const struct span *span)
{
	if (!life->request || (!life->calls && root_of(s, tables, span->stack) < FIRST))
		return NULL;
	return request_add_sample(&s->requests->items[life->request - 1], span);
}

static bool is_recorded(const struct inferred_spans *s, uint64_t root)
{
	const uint64_t *known = map_find(&s->functions, root - FIRST);

	return known && *known & TOLD;
}

/* Its stack says which request it is for, if no recorded call does. */
static struct error *must_check pass_allocation(struct inferred_spans *s,
						const struct span_tables *tables,
						struct inferred_span *life, const struct span *span)
{
	bool is_one = span->start && is_root(s, tables, span->start);
	uint64_t root = is_one ? (uint64_t)span->start + FIRST : OUTSIDE;

	if (!life->request && !is_one)
		root = root_of(s, tables, span->stack);
	if (!life->request && root >= FIRST && !(life->recorded && is_recorded(s, root))) {
		const char *name = intern_get(&tables->texts, root - FIRST);

		if (!requests_new(s->requests, name, span->g))
			return &error_no_memory;
		life->request = s->requests->count;
		life->root = root;
	}
	return life->request ? request_add_allocation(&s->requests->items[life->request - 1], span)
			     : NULL;
}

struct error *inferred_spans_add(struct inferred_spans *s, const struct span_tables *tables,
				 const struct span *span)
{
	struct inferred_span *life = inferred_span_of(s, span->g);
	const char *start = intern_get(&tables->texts, span->start);
	uint64_t root;
	struct error *err;

	if (!life)
		return &error_no_memory;
	if (span->moment == SPAN_FACTS) {
		take_facts(s, life, span);
		return NULL;
	}
	if (span->moment == SPAN_SAMPLE)
		return take_sample(s, tables, life, span);
	if (span->moment == SPAN_ALLOC)
		return pass_allocation(s, tables, life, span);
	if (span->start && is_root(s, tables, span->start)) {
		if (span->moment)
			return pass_moment_within(s, tables, life, span);
		if (!life->request && !requests_new(s->requests, start, span->g))
			return &error_no_memory;
		life->request = life->request ?: s->requests->count;
		return request_credit(&s->requests->items[life->request - 1], span);
	}
	/* A goroutine that was created during the trace was in no call before. */
	life->outside |= !life->seen && span->begin;
	life->seen = true;
	if (span->moment)
		return pass_moment(s, tables, life, span);
	if (life->calls)
		return request_credit(&s->requests->items[life->request - 1], span);
	if (span->state == TRACE_RUNNING) {
		/* A change that does not move it, such as of its labels, does not end its running
		 * time. */
		if (life->ran.state)
			life->ran.end = span->end;
		else
			life->ran = *span;
		return NULL;
	}
	root = root_of(s, tables, span->stack);
	/* A recorded call has its own events: it is about to begin, or has just returned. */
	if (life->recorded && !life->request && root >= FIRST && is_recorded(s, root))
		root = OUTSIDE;
	err = pass(s, tables, life, root, span->g);
	if (err || !life->request)
		return err;
	return request_credit(&s->requests->items[life->request - 1], span);
}

struct error *inferred_spans_complete(struct inferred_spans *s)
{
	_cleanup_free_ uint64_t *ids = map_sorted_keys(&s->lives);
	struct error *err = ids || !s->lives.count ? NULL : &error_no_memory;

	for (size_t i = 0; !err && i < s->lives.count; i++) {
		struct inferred_span *life =
			(struct inferred_span *)(uintptr_t)*map_find(&s->lives, ids[i]);

		if (life && life->request)
			err = credit_ran(s, life, true);
	}
	for (size_t i = 0; i < s->functions.capacity; i++)
		if (s->functions.slots[i].key != MAP_NO_KEY)
			s->requests->by_stacks |=
				(s->functions.slots[i].value & (IN_STACKS | TOLD)) == IN_STACKS;
	return err;
}

void inferred_spans_release(struct inferred_spans *s)
{
	for (size_t i = 0; i < s->lives.capacity; i++)
		if (s->lives.slots[i].key != MAP_NO_KEY)
			free((void *)(uintptr_t)s->lives.slots[i].value);
	map_release(&s->lives);
	map_release(&s->functions);
	map_release(&s->roots);
}
