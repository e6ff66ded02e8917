#include "requests/running_split.h"

#include <math.h>
#include <stdlib.h>

#include "base/array.h"

/* 95 % of a normal distribution lie within so many standard deviations. */
#define SIGMAS 1.96

uint64_t sampled_ns(uint64_t some, uint64_t all, uint64_t ns)
{
	return all ? (uint64_t)((unsigned __int128)ns * some / all) : 0;
}

/* The interval of Agresti and Coull, which also holds where all samples, or one alone, are in one
 * function. It is not symmetric around the share, so the longer side counts. */
uint64_t sampled_error_ns(uint64_t some, uint64_t all, uint64_t ns)
{
	double n = (double)all + SIGMAS * SIGMAS;
	double share = all ? (double)some / (double)all : 0;
	double middle = ((double)some + SIGMAS * SIGMAS / 2) / n;
	double half = SIGMAS * sqrt(middle * (1 - middle) / n);

	return all ? (uint64_t)((half + fabs(middle - share)) * (double)ns) : 0;
}

bool running_split_add(struct running_split *s, uint32_t function, uint64_t samples)
{
	if (!array_reserve(&s->items, &s->capacity, s->count + 1))
		return false;
	s->items[s->count++] = (struct running_function){.function = function, .samples = samples};
	s->samples += samples;
	return true;
}

static int by_function(const void *a, const void *b)
{
	const struct running_function *x = a, *y = b;

	return (x->function > y->function) - (x->function < y->function);
}

static int by_samples(const void *a, const void *b)
{
	const struct running_function *x = a, *y = b;

	return (x->samples < y->samples) - (x->samples > y->samples) ?: by_function(a, b);
}

void running_split_complete(struct running_split *s, uint64_t ns)
{
	size_t n = 0;

	if (!s->count)
		return;
	qsort(s->items, s->count, sizeof(*s->items), by_function);
	for (size_t i = 1; i < s->count; i++) {
		if (s->items[i].function == s->items[n].function)
			s->items[n].samples += s->items[i].samples;
		else
			s->items[++n] = s->items[i];
	}
	s->count = n + 1;
	qsort(s->items, s->count, sizeof(*s->items), by_samples);
	for (size_t i = 0; i < s->count; i++) {
		struct running_function *f = &s->items[i];

		f->ns = sampled_ns(f->samples, s->samples, ns);
		f->error_ns = sampled_error_ns(f->samples, s->samples, ns);
	}
}

void running_split_release(struct running_split *s)
{
	free(s->items);
	*s = (struct running_split){0};
}
