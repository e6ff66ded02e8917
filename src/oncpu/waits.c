#include "oncpu/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

#define DRAW_NS 20000000u
/* After this many draws in a second, each draw stands for twice the time, because every draw is
 * unwound. */
#define MAX_DRAWS 100
#define SECOND 1000000000u

struct stopped {
	struct perf_sample sample;
	uint8_t *bytes; /* the memory of the sample's pointers */
	size_t capacity;
	bool could_run;
	size_t next_free; /* its place + 1 */
};

struct waits {
	struct map places; /* tid -> its place among `stopped` + 1 */
	struct stopped *stopped;
	size_t count;
	size_t capacity;
	size_t first_free; /* its place + 1 */
	uint64_t draw_ns;  /* time that one draw stands for */
	uint64_t waited;   /* time since the last draw */
	uint64_t second;   /* when the count of draws began */
	size_t draws;
};

struct waits *waits_create(void)
{
	struct waits *w = calloc(1, sizeof(*w));

	if (w)
		w->draw_ns = DRAW_NS;
	return w;
}

void waits_destroy(struct waits *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->count; i++)
		free(w->stopped[i].bytes);
	free(w->stopped);
	map_release(&w->places);
	free(w);
}

/* A free place, + 1; 0: no memory. */
static size_t take_place(struct waits *w)
{
	size_t place = w->first_free;

	if (place) {
		w->first_free = w->stopped[place - 1].next_free;
		return place;
	}
	if (!array_reserve(&w->stopped, &w->capacity, w->count + 1))
		return 0;
	w->stopped[w->count++] = (struct stopped){0};
	return w->count;
}

static struct stopped *find(struct waits *w, pid_t tid)
{
	const uint64_t *place = map_find(&w->places, tid);

	return place ? &w->stopped[*place - 1] : NULL;
}

/* Frees the place. Its contents stay valid until the next thread leaves. */
static void forget(struct waits *w, struct stopped *s)
{
	size_t place = s - w->stopped + 1;

	map_remove(&w->places, s->sample.tid);
	s->next_free = w->first_free;
	w->first_free = place;
}

static bool copy_sample(struct stopped *to, const struct perf_sample *sample)
{
	size_t chain = sample->chain_count * sizeof(*sample->chain);

	if (!array_reserve(&to->bytes, &to->capacity, chain + sample->stack_size))
		return false;
	to->sample = *sample;
	to->sample.kernel = NULL;
	to->sample.kernel_count = 0;
	to->sample.chain = (const uint64_t *)to->bytes;
	to->sample.stack = to->bytes + chain;
	if (chain)
		memcpy(to->bytes, sample->chain, chain);
	if (sample->stack_size)
		memcpy(to->bytes + chain, sample->stack, sample->stack_size);
	to->could_run = false;
	return true;
}

bool waits_leave(struct waits *w, const struct perf_sample *sample)
{
	uint64_t *place = map_at(&w->places, sample->tid);

	if (!place)
		return false;
	if (!*place)
		*place = take_place(w);
	if (!*place) {
		map_remove(&w->places, sample->tid);
		return false;
	}
	return copy_sample(&w->stopped[*place - 1], sample);
}

void waits_left(struct waits *w, pid_t tid, bool could_run)
{
	struct stopped *s = find(w, tid);

	if (s && could_run)
		s->could_run = true;
	else if (s)
		forget(w, s);
}

static void slow_down(struct waits *w, uint64_t time)
{
	if (time - w->second > SECOND) {
		w->second = time;
		w->draws = 0;
	}
	if (++w->draws > MAX_DRAWS) {
		w->draw_ns *= 2;
		w->draws = 0;
	}
}

const struct perf_sample *waits_return(struct waits *w, pid_t tid, uint64_t time, uint64_t *ret_ns)
{
	struct stopped *s = find(w, tid);
	uint64_t waited;

	if (!s)
		return NULL;
	forget(w, s);
	if (!s->could_run || time <= s->sample.time)
		return NULL;
	waited = w->waited + (time - s->sample.time);
	w->waited = waited % w->draw_ns;
	if (waited < w->draw_ns)
		return NULL;
	*ret_ns = waited - w->waited;
	slow_down(w, time);
	return &s->sample;
}
