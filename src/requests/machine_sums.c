#include "requests/machine_sums.h"

#include <stdlib.h>

#include "base/array.h"

struct error *machine_sums_add(struct machine_sums *s, uint32_t stack, uint64_t ns, bool lost)
{
	uint64_t *place = map_at(&s->index, stack);
	struct machine_sum *sum;

	if (!place)
		return &error_no_memory;
	if (!*place) {
		if (!array_reserve(&s->items, &s->capacity, s->count + 1))
			return &error_no_memory;
		s->items[s->count] = (struct machine_sum){.stack = stack};
		*place = ++s->count;
	}
	sum = &s->items[*place - 1];
	sum->count++;
	sum->ns += ns;
	sum->lost += lost;
	if (ns > sum->max_ns)
		sum->max_ns = ns;
	s->total_ns += ns;
	s->total_count++;
	return NULL;
}

static int by_time(const void *a, const void *b)
{
	const struct machine_sum *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

void machine_sums_complete(struct machine_sums *s)
{
	map_release(&s->index);
	if (s->count)
		qsort(s->items, s->count, sizeof(*s->items), by_time);
}

void machine_sums_release(struct machine_sums *s)
{
	free(s->items);
	map_release(&s->index);
}
