#include "lib/recording_goroutines.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/utf8.h"
#include "profile/profile_symbols.h"

#define MOST_STAYS (2u << 20)
/* Kept by CPU time, and as many by their longest wait, when there are more stays. */
#define KEPT 1000
/* Places of a goroutine's running time, and buckets of the result that have them: those of a
 * program with more start functions and labels stay without. */
#define SHARES 8
#define MOST_RUNNING 1024

/* ---- while it is recorded ---- */

struct score {
	uint64_t cpu, longest;
};

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

/* The score of the last one that is kept. */
static uint64_t least_of(uint64_t *scores, size_t count)
{
	qsort(scores, count, sizeof(*scores), descending);
	return count > KEPT ? scores[KEPT - 1] : 0;
}

static bool sum_up(const struct recording_goroutines *g, struct map *index, struct score *scores)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct wall_stay *stay = &g->stays[i];
		uint64_t *place = map_at(index, stay->goroutine), ns = stay->end - stay->begin;
		struct score *score;

		if (!place)
			return false;
		if (!*place)
			*place = index->count;
		score = &scores[*place - 1];
		score->cpu += stay->runs ? ns : 0;
		if (!stay->runs && ns > score->longest)
			score->longest = ns;
	}
	return true;
}

static void keep(struct recording_goroutines *g, const struct map *index,
		 const struct score *scores, struct score least)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->count; i++) {
		const struct score *score = &scores[*map_find(index, g->stays[i].goroutine) - 1];

		if ((score->cpu && score->cpu >= least.cpu) || score->longest >= least.longest)
			g->stays[kept++] = g->stays[i];
	}
	g->count = kept;
}

/* False: nothing is gained by it, or there is no memory. */
static bool thin(struct recording_goroutines *g)
{
	_cleanup_free_ struct score *scores = calloc(g->count, sizeof(*scores));
	_cleanup_free_ uint64_t *sorted = calloc(g->count, sizeof(*sorted));
	_cleanup_map_ struct map index = {0};
	struct score least;

	if (!scores || !sorted || !sum_up(g, &index, scores))
		return false;
	for (size_t i = 0; i < index.count; i++)
		sorted[i] = scores[i].cpu;
	least.cpu = least_of(sorted, index.count);
	for (size_t i = 0; i < index.count; i++)
		sorted[i] = scores[i].longest;
	least.longest = least_of(sorted, index.count);
	keep(g, &index, scores, least);
	return g->count <= MOST_STAYS / 2;
}

void recording_goroutines_take(void *arg, const struct wall_stay *stay)
{
	struct recording_goroutines *g = arg;

	if (g->count == MOST_STAYS && !g->failed)
		g->failed = !thin(g);
	if (!g->failed && !array_reserve(&g->stays, &g->capacity, g->count + 1))
		g->failed = true;
	if (g->failed)
		recording_goroutines_release(g);
	else
		g->stays[g->count++] = *stay;
	g->failed |= !g->stays;
}

/* ---- at its end ---- */

struct shares {
	struct wall_share items[SHARES];
	size_t count;
	uint64_t ns; /* of all */
};

struct giving {
	const struct wall_sampler *sampler;
	const uint32_t *places;
	struct profile *p;
	const struct profile_symbols *symbols;
	struct goroutine_ledger ledger;
	struct map running;   /* stack and labels -> place in the profile's samples + 1 */
	struct map shares_of; /* bucket -> place in shares + 1 */
	struct shares *shares;
	size_t share_count, share_capacity;
	uint32_t *starts; /* by sample: start function in the profile's strings; 0: not known yet */
	bool is_second;
};

static void giving_release(struct giving *g)
{
	goroutine_ledger_release(&g->ledger);
	map_release(&g->running);
	map_release(&g->shares_of);
	free(g->shares);
	free(g->starts);
}

static uint64_t identity(uint32_t stack, uint32_t labels)
{
	return (uint64_t)stack << 32 | labels;
}

static struct error *must_check find_running(struct giving *g)
{
	const struct wall_bucket *buckets;
	size_t count = wall_sampler_buckets(g->sampler, &buckets);

	for (size_t i = 1; i < count; i++) {
		uint64_t *place;

		if (g->places[i] == TIMELINE_NO_ROW || buckets[i].status != G_RUNNING)
			continue;
		place = map_at(&g->running, identity(buckets[i].stack, buckets[i].labels));
		if (!place)
			return &error_no_memory;
		*place = g->places[i] + 1ull;
	}
	return NULL;
}

/* The shares of a bucket, with places in the profile instead of stacks. */
static void fill_shares(struct giving *g, uint32_t bucket, struct shares *ret)
{
	struct wall_share found[SHARES];
	size_t count = wall_sampler_shares(g->sampler, bucket, found, SHARES);

	*ret = (struct shares){0};
	for (size_t i = 0; i < count; i++) {
		const uint64_t *place =
			map_find(&g->running, identity(found[i].stack, found[i].labels));

		if (!place)
			continue;
		found[i].stack = *place - 1;
		ret->items[ret->count++] = found[i];
		ret->ns += found[i].ns;
	}
}

/* NULL: none are known. */
static const struct shares *shares_of(struct giving *g, uint32_t bucket)
{
	uint64_t *known = map_at(&g->shares_of, bucket);

	if (!known || (!*known && g->share_count == MOST_RUNNING))
		return NULL;
	if (!*known) {
		if (!array_reserve(&g->shares, &g->share_capacity, g->share_count + 1))
			return NULL;
		fill_shares(g, bucket, &g->shares[g->share_count]);
		*known = ++g->share_count;
	}
	return &g->shares[*known - 1];
}

/* The outermost function of the sample's stack. */
static struct error *must_check start_of(struct giving *g, uint32_t sample, uint32_t *ret)
{
	_cleanup_symbol_stack_ struct symbol_stack stack = {0};
	const char *name;
	struct error *err;

	if (!g->starts[sample]) {
		err = symbols_stack(g->symbols, &g->p->samples[sample], &stack);
		if (err)
			return err;
		name = stack.count ? g->symbols->frames[stack.frames[stack.count - 1]].function
				   : "";
		g->starts[sample] = utf8_intern(&g->p->strings, name, strlen(name));
		if (g->starts[sample] == INTERN_FAILED)
			return &error_no_memory;
	}
	*ret = g->starts[sample];
	return NULL;
}

static struct error *must_check add_time(struct giving *g, struct goroutine_time *time)
{
	struct error *err;

	if (time->begin >= time->end)
		return NULL;
	if (g->is_second)
		return goroutine_rows_add(&g->p->goroutines, time);
	err = start_of(g, time->sample, &time->start);
	if (!err)
		err = goroutine_ledger_add(&g->ledger, g->p, time);
	return err ? err : goroutine_rows_offer(&g->p->goroutines, time);
}

/* Where it ran is not known of a single goroutine: its time is that of all with its start function
 * and labels, in parts. */
static struct error *must_check add_running(struct giving *g, struct goroutine_time time,
					    uint32_t bucket)
{
	const struct shares *shares = shares_of(g, bucket);
	uint64_t begin = time.begin, end = time.end, sum = 0;
	struct error *err = NULL;

	for (size_t i = 0; !err && shares && i < shares->count; i++) {
		sum += shares->items[i].ns;
		time.sample = shares->items[i].stack;
		time.end = begin + (uint64_t)((double)(end - begin) * sum / shares->ns);
		err = add_time(g, &time);
		time.begin = time.end;
	}
	return err;
}

static struct error *must_check add_stay(struct giving *g, const struct wall_stay *stay)
{
	struct goroutine_time time = {.goroutine = stay->goroutine,
				      .sample = g->places[stay->bucket],
				      .begin = stay->begin,
				      .end = stay->end};

	if (stay->whole) {
		time.begin = 0;
		time.end = g->p->duration_ns;
	}
	if (time.sample != TIMELINE_NO_ROW)
		return add_time(g, &time);
	return stay->runs ? add_running(g, time, stay->bucket) : NULL;
}

static struct error *must_check add_all(struct giving *g, const struct recording_goroutines *from)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < from->count; i++)
		if (!g->is_second ||
		    goroutine_rows_has(&g->p->goroutines, from->stays[i].goroutine))
			err = add_stay(g, &from->stays[i]);
	return err;
}

struct error *recording_goroutines_give(struct recording_goroutines *from,
					const struct wall_sampler *sampler, const uint32_t *places,
					struct profile *p, const struct profile_symbols *symbols)
{
	_cleanup_(giving_release) struct giving g = {
		.sampler = sampler,
		.places = places,
		.p = p,
		.symbols = symbols,
		.starts = calloc(p->count + 1, sizeof(*g.starts)),
	};
	struct error *err = g.starts ? find_running(&g) : &error_no_memory;

	if (!err && !from->failed)
		err = add_all(&g, from);
	if (!err && !from->failed)
		err = goroutine_ledger_choose(&g.ledger, p, symbols, &p->goroutines);
	g.is_second = true;
	if (!err && p->goroutines.is_full)
		err = add_all(&g, from);
	return err;
}

void recording_goroutines_release(struct recording_goroutines *g)
{
	free(g->stays);
	*g = (struct recording_goroutines){.failed = g->failed};
}
