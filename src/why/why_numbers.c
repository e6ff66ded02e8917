#include "why/why_numbers.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void why_numbers_init(struct why_numbers *n)
{
	*n = (struct why_numbers){
		.target = "",
		.peer = {.fd = -1},
		.sleeping = -1,
		.cpu = {.cores = -1, .gc = -1, .gc_rate = -1, .steal = -1},
	};
}

void why_numbers_release(struct why_numbers *n)
{
	free(n->places);
	free(n->creators);
	free(n->objects);
	free(n->cycles);
	arena_release(&n->strings);
	why_numbers_init(n);
}

const char *why_keep(struct why_numbers *n, const char *text)
{
	const char *copy = arena_copy(&n->strings, text, strlen(text));

	return copy ? copy : "";
}

static struct why_place *find(const struct why_numbers *n, const struct why_place *like)
{
	for (size_t i = 0; i < n->place_count; i++) {
		struct why_place *p = &n->places[i];

		if (p->kind == like->kind && !strcmp(p->function, like->function) &&
		    !strcmp(p->wait, like->wait))
			return p;
	}
	return NULL;
}

bool why_add_place(struct why_numbers *n, const struct why_place *add)
{
	struct why_place *p = find(n, add);
	double sum;

	n->of_kind[add->kind] += add->goroutines;
	if (!p && n->place_count == WHY_MOST_PLACES)
		return true;
	if (!p) {
		if (!array_reserve(&n->places, &n->place_capacity, n->place_count + 1))
			return false;
		p = &n->places[n->place_count++];
		*p = (struct why_place){.kind = add->kind,
					.function = why_keep(n, add->function),
					.wait = why_keep(n, add->wait)};
	}
	sum = p->goroutines + add->goroutines;
	if (sum > 0)
		p->length = (p->length * p->goroutines + add->length * add->goroutines) / sum;
	p->goroutines = sum;
	p->whole += add->whole;
	return true;
}

static int by_goroutines(const void *a, const void *b)
{
	const struct why_place *x = a, *y = b;
	double of_x = x->goroutines + x->whole, of_y = y->goroutines + y->whole;

	if (of_x != of_y)
		return of_x < of_y ? 1 : -1;
	return strcmp(x->function, y->function);
}

void why_sort_places(struct why_numbers *n)
{
	if (n->place_count)
		qsort(n->places, n->place_count, sizeof(*n->places), by_goroutines);
}

const struct why_place *why_place_of(const struct why_numbers *n, enum stack_kind kind,
				     double least)
{
	const struct why_place *most = NULL;

	for (size_t i = 0; i < n->place_count; i++) {
		const struct why_place *p = &n->places[i];

		if (p->kind == kind && p->goroutines >= least &&
		    (!most || p->goroutines > most->goroutines))
			most = p;
	}
	return most;
}
