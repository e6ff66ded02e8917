#include "lib/give_wakers.h"

#include "lib/trace_spans.h"
#include "lib/waker_words.h"

/* Each names its stack in full, and a hostile trace may have millions. */
enum { MOST_WAKERS = 1000 };

const struct gospect_stack *give_stack(struct giving_wakers *g, uint32_t stack)
{
	uint64_t *place = map_at(&g->stacks, stack);

	if (place && !*place)
		*place = (uintptr_t)span_stack_of(g->arena, g->tables, stack);
	return place ? (const struct gospect_stack *)(uintptr_t)*place : NULL;
}

static bool give(struct giving_wakers *g, const char *reason, const struct waker *from,
		 struct gospect_waker *ret)
{
	*ret = (struct gospect_waker){
		.goroutine = from->g == WAKERS_SEVERAL ? GOSPECT_SEVERAL_GOROUTINES : from->g,
		.ns = from->ns,
		.count = from->count,
		.cause = from->g ? "" : waker_cause(reason),
		.stack = give_stack(g, from->stack),
	};
	return ret->stack;
}

static struct waker add_up(const struct waker *from, size_t count)
{
	struct waker ret = {.g = WAKERS_SEVERAL};

	for (size_t i = 0; i < count; i++) {
		ret.ns += from[i].ns;
		ret.count += from[i].count;
	}
	return ret;
}

const struct gospect_waker *const *give_wakers(struct giving_wakers *g, const char *reason,
					       const struct waker *from, size_t count,
					       size_t *ret_count)
{
	size_t alone = count > MOST_WAKERS ? MOST_WAKERS : count;
	size_t all = alone + (count > alone);
	struct gospect_waker *wakers = given_take(g->arena, (all + 1) * sizeof(*wakers));
	const struct gospect_waker **pointers = given_take(g->arena, (all + 1) * sizeof(*pointers));

	if (!wakers || !pointers)
		return NULL;
	for (size_t i = 0; i < all; i++) {
		const struct waker rest = add_up(from + alone, i == alone ? count - alone : 0);

		if (!give(g, reason, i == alone ? &rest : &from[i], &wakers[i]))
			return NULL;
		pointers[i] = &wakers[i];
	}
	*ret_count = all;
	return pointers;
}
