#include "requests/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static struct history_life *life_of(struct history *h, uint64_t g)
{
	uint64_t *place = map_at(&h->lives, g);

	if (place && !*place)
		*place = (uintptr_t)calloc(1, sizeof(struct history_life));
	return place ? (struct history_life *)(uintptr_t)*place : NULL;
}

struct error *history_add(struct history *h, const struct span *span)
{
	struct history_life *life = life_of(h, span->g);

	if (!life || !array_reserve(&life->entries, &life->capacity, life->count + 1))
		return &error_no_memory;
	if (!life->count) {
		life->g = span->g;
		life->creator = span->created.goroutine;
		life->creator_stack = span->created.stack;
	}
	life->start = span->start ? span->start : life->start;
	life->end = span->end;
	h->spans++;
	life->entries[life->count++] = (struct history_entry){
		.begin = span->begin,
		.ended_by = span->ended.is_known ? span->ended.goroutine : 0,
		.stack = span->stack,
		.ended_stack = span->ended.stack,
		.reason = span->reason,
		.state = span->state,
	};
	return NULL;
}

const struct history_life *history_of(const struct history *h, uint64_t g)
{
	const uint64_t *place = map_find(&h->lives, g);

	return place ? (const struct history_life *)(uintptr_t)*place : NULL;
}

size_t history_at(const struct history_life *life, uint64_t moment)
{
	size_t low = 0, high = life->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (history_end(life, middle) <= moment)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void forget_of(struct history *h, struct history_life *life, uint64_t before)
{
	size_t gone = history_at(life, before);

	h->spans -= gone;
	life->count -= gone;
	memmove(life->entries, life->entries + gone, life->count * sizeof(*life->entries));
}

void history_forget(struct history *h, uint64_t before)
{
	for (size_t i = 0; i < h->lives.capacity;) {
		const struct map_slot *slot = &h->lives.slots[i];
		struct history_life *life = (struct history_life *)(uintptr_t)slot->value;

		if (slot->key != MAP_NO_KEY && life)
			forget_of(h, life, before);
		if (slot->key == MAP_NO_KEY || (life && life->count)) {
			i++;
			continue;
		}
		/* Another entry moves into its slot. */
		if (life)
			free(life->entries);
		free(life);
		map_remove(&h->lives, slot->key);
	}
}

void history_release(struct history *h)
{
	for (size_t i = 0; i < h->lives.capacity; i++) {
		struct history_life *life =
			(struct history_life *)(uintptr_t)h->lives.slots[i].value;

		if (h->lives.slots[i].key == MAP_NO_KEY || !life)
			continue;
		free(life->entries);
		free(life);
	}
	map_release(&h->lives);
}
