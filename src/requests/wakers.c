#include "requests/wakers.h"

#include <stdlib.h>

#include "base/array.h"

static int by_number(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int by_key(const void *a, const void *b)
{
	const struct waker *x = a, *y = b;

	return by_number(x->place, y->place) ?: by_number(x->stack, y->stack)
					     ?: by_number(x->g, y->g);
}

static int by_time(const void *a, const void *b)
{
	const struct waker *x = a, *y = b;

	return by_number(x->place, y->place) ?: by_number(y->ns, x->ns) ?: by_key(a, b);
}

/* Whether y is a part of x. */
static bool is_same(const struct wakers *w, const struct waker *x, const struct waker *y)
{
	return x->place == y->place && x->stack == y->stack &&
	       (x->g == y->g || (w->by_stack && x->g && y->g));
}

static void add_to(struct waker *x, const struct waker *y)
{
	if (x->g != y->g)
		x->g = WAKERS_SEVERAL;
	x->ns += y->ns;
	x->count += y->count;
}

static void merge(struct wakers *w)
{
	size_t n = 0;

	if (!w->count)
		return;
	qsort(w->items, w->count, sizeof(*w->items), by_key);
	for (size_t i = 1; i < w->count; i++) {
		if (is_same(w, &w->items[n], &w->items[i]))
			add_to(&w->items[n], &w->items[i]);
		else
			w->items[++n] = w->items[i];
	}
	w->count = n + 1;
}

bool wakers_add(struct wakers *w, const struct waker *waker)
{
	struct waker *last = w->count ? &w->items[w->count - 1] : NULL;

	if (last && is_same(w, last, waker)) {
		add_to(last, waker);
		return true;
	}
	if (w->count == w->capacity) {
		merge(w);
		if (!array_reserve(&w->items, &w->capacity, 2 * w->count + 1))
			return false;
	}
	w->items[w->count++] = *waker;
	return true;
}

void wakers_complete(struct wakers *w)
{
	merge(w);
	if (w->count)
		qsort(w->items, w->count, sizeof(*w->items), by_time);
}

/* How many are of places before this one. */
static size_t before(const struct wakers *w, uint64_t place)
{
	size_t low = 0, high = w->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (w->items[middle].place < place)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct waker *wakers_of(const struct wakers *w, uint32_t place, size_t *ret_count)
{
	size_t first = before(w, place);

	*ret_count = before(w, (uint64_t)place + 1) - first;
	return *ret_count ? &w->items[first] : NULL;
}

void wakers_release(struct wakers *w)
{
	free(w->items);
	*w = (struct wakers){.by_stack = w->by_stack};
}
