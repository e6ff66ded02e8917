#include "requests/critical_path.h"

#include <stdlib.h>

#include "base/array.h"

/* A hostile trace could make either any number. Beyond them a wait is on the path as it is. */
enum { MAX_DEPTH = 64, MAX_SEGMENTS = 10000 };

struct finding {
	const struct history *history;
	struct critical_path *path;
	size_t looked; /* entries, so far */
	struct error *error;
};

static bool continues(const struct path_segment *a, const struct path_segment *b)
{
	return a->g == b->g && a->state == b->state && a->reason == b->reason &&
	       a->depth == b->depth && a->end == b->begin &&
	       (a->stack == b->stack || a->state == TRACE_RUNNING);
}

static void add(struct finding *f, const struct path_segment *segment)
{
	struct critical_path *path = f->path;
	struct path_segment *last = path->count ? &path->segments[path->count - 1] : NULL;

	if (segment->begin >= segment->end)
		return;
	if (last && continues(last, segment)) {
		last->end = segment->end;
		last->stack = segment->stack;
		return;
	}
	if (!array_reserve(&path->segments, &path->capacity, path->count + 1)) {
		f->error = &error_no_memory;
		return;
	}
	path->segments[path->count++] = *segment;
}

/* The part of a goroutine's life that is looked at. */
struct interval {
	uint64_t begin;
	uint64_t end;
	uint32_t depth;
	uint32_t ends_at; /* where the goroutine stands at the end; 0: not known */
};

static void follow(struct finding *f, uint64_t g, const struct interval *s);

/* Whether the goroutine that ended the wait says what took so long. */
static bool is_followed(struct finding *f, const struct history_entry *e, uint64_t end,
			const struct interval *s)
{
	if (e->state != TRACE_WAITING || !e->ended_by || end > s->end)
		return false;
	if (s->depth < MAX_DEPTH && f->path->count < MAX_SEGMENTS && f->looked < 100 * MAX_SEGMENTS)
		return history_of(f->history, e->ended_by);
	f->path->is_cut = true;
	return false;
}

/* Where a running goroutine got to: where it stopped, or ended another's wait. */
static uint32_t stands_at(const struct history_life *life, size_t i, uint64_t end,
			  const struct interval *s)
{
	if (life->entries[i].state != TRACE_RUNNING)
		return life->entries[i].stack;
	if (end >= s->end && s->ends_at)
		return s->ends_at;
	return i + 1 < life->count ? life->entries[i + 1].stack : 0;
}

static void follow_entry(struct finding *f, const struct history_life *life, size_t i,
			 const struct interval *s)
{
	const struct history_entry *e = &life->entries[i];
	uint64_t end = history_end(life, i);
	struct path_segment segment = {
		.begin = e->begin > s->begin ? e->begin : s->begin,
		.end = end < s->end ? end : s->end,
		.g = life->g,
		.state = e->state,
		.reason = e->reason,
		.start = life->start,
		.stack = stands_at(life, i, end, s),
		.depth = s->depth,
	};

	f->looked++;
	if (is_followed(f, e, end, s))
		follow(f, e->ended_by,
		       &(struct interval){segment.begin, segment.end, s->depth + 1,
					  e->ended_stack});
	else
		add(f, &segment);
}

/* What came before the goroutine existed, or before it was seen. */
static void follow_creator(struct finding *f, const struct history_life *life, uint64_t birth,
			   const struct interval *s)
{
	const struct interval before = {s->begin, birth, s->depth + 1, life->creator_stack};

	if (life->creator && s->depth < MAX_DEPTH && history_of(f->history, life->creator))
		follow(f, life->creator, &before);
	else
		add(f, &(struct path_segment){.begin = s->begin,
					      .end = birth,
					      .g = life->g,
					      .start = life->start,
					      .depth = s->depth});
}

static void follow(struct finding *f, uint64_t g, const struct interval *s)
{
	const struct history_life *life = history_of(f->history, g);
	size_t i = life ? history_at(life, s->begin) : 0;
	uint64_t at = s->begin;

	if (!life || f->error)
		return;
	if (i < life->count && life->entries[i].begin > at) {
		at = life->entries[i].begin < s->end ? life->entries[i].begin : s->end;
		follow_creator(f, life, at, s);
	}
	for (; i < life->count && life->entries[i].begin < s->end && !f->error; i++) {
		follow_entry(f, life, i, s);
		at = history_end(life, i);
	}
	/* It ended before: only in a trace that lost events. */
	if (at < s->end)
		add(f, &(struct path_segment){.begin = at,
					      .end = s->end,
					      .g = g,
					      .start = life->start,
					      .depth = s->depth});
}

struct error *critical_path_find(const struct history *h, uint64_t g, uint64_t begin, uint64_t end,
				 struct critical_path *ret)
{
	struct finding f = {.history = h, .path = ret};

	follow(&f, g, &(struct interval){begin, end, 0, 0});
	return f.error;
}

void critical_path_release(struct critical_path *path)
{
	free(path->segments);
}
