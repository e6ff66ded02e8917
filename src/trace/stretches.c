#include "trace/stretches.h"

#include <stdlib.h>
#include <string.h>

/* What a stack is under, where it is no function: not known yet; nothing; frames are missing. */
enum { UNKNOWN, OUTSIDE, CUT, FIRST };

/* A goroutine. */
struct stretch {
	size_t request;  /* + 1; 0: it is under none of the functions */
	struct span ran; /* since it was seen last; state 0: it did not run */
};

static uint64_t find_root(const struct stretches *s, const struct span_tables *tables,
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

static uint64_t root_of(struct stretches *s, const struct span_tables *tables, uint32_t stack)
{
	uint64_t *place = stack ? map_at(&s->roots, stack) : NULL;

	if (!place)
		return CUT;
	if (!*place)
		*place = find_root(s, tables, stack);
	return *place;
}

static struct stretch *stretch_of(struct stretches *s, uint64_t g)
{
	uint64_t *place = map_at(&s->lives, g);

	if (place && !*place)
		*place = (uintptr_t)calloc(1, sizeof(struct stretch));
	return place ? (struct stretch *)(uintptr_t)*place : NULL;
}

/* What it ran counts to the request that is open. */
static struct error *must_check credit_ran(struct stretches *s, struct stretch *life, bool edge)
{
	struct traced_request *item = &s->requests->items[life->request - 1];

	if (!life->ran.state)
		return NULL;
	if (edge)
		item->edge_ns += life->ran.end - life->ran.begin;
	return request_credit(item, &life->ran);
}

static struct error *must_check open_request(struct stretches *s, const struct span_tables *tables,
					     struct stretch *life, uint64_t root, uint64_t g)
{
	const char *name = intern_get(&tables->texts, root - FIRST);

	if (!requests_new(s->requests, name, g))
		return &error_no_memory;
	life->request = s->requests->count;
	return credit_ran(s, life, true);
}

/* A moment at which it is known where it was: before this span. */
static struct error *must_check pass(struct stretches *s, const struct span_tables *tables,
				     struct stretch *life, uint64_t root, uint64_t g)
{
	struct error *err = NULL;

	if (root >= FIRST && !life->request) {
		err = open_request(s, tables, life, root, g);
	} else if (life->request) {
		err = credit_ran(s, life, root == OUTSIDE);
		if (root == OUTSIDE)
			life->request = 0;
	}
	life->ran.state = 0;
	return err;
}

struct error *stretches_add(struct stretches *s, const struct span_tables *tables,
			    const struct span *span)
{
	struct stretch *life = stretch_of(s, span->g);
	const char *start = intern_get(&tables->texts, span->start);
	uint64_t root;
	struct error *err;

	if (!life)
		return &error_no_memory;
	if (span->start && !regexec(s->root, start, 0, NULL, 0)) {
		if (!life->request && !requests_new(s->requests, start, span->g))
			return &error_no_memory;
		life->request = life->request ?: s->requests->count;
		return request_credit(&s->requests->items[life->request - 1], span);
	}
	if (span->state == TRACE_RUNNING) {
		/* Behind a change that is none of its place, as of its labels, it goes on. */
		if (life->ran.state)
			life->ran.end = span->end;
		else
			life->ran = *span;
		return NULL;
	}
	root = root_of(s, tables, span->stack);
	err = pass(s, tables, life, root, span->g);
	if (err || !life->request)
		return err;
	return request_credit(&s->requests->items[life->request - 1], span);
}

struct error *stretches_complete(struct stretches *s)
{
	struct error *err = NULL;

	for (size_t i = 0; i < s->lives.capacity; i++) {
		struct stretch *life = (struct stretch *)(uintptr_t)s->lives.slots[i].value;

		if (s->lives.slots[i].key != MAP_NO_KEY && life && life->request && !err)
			err = credit_ran(s, life, true);
	}
	return err;
}

void stretches_release(struct stretches *s)
{
	for (size_t i = 0; i < s->lives.capacity; i++)
		if (s->lives.slots[i].key != MAP_NO_KEY)
			free((void *)(uintptr_t)s->lives.slots[i].value);
	map_release(&s->lives);
	map_release(&s->roots);
}
