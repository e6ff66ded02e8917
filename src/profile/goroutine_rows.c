#include "profile/goroutine_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "profile/awaiting.h"
#include "profile/profile.h"
#include "profile/profile_symbols.h"

/* ---- sums of all goroutines ---- */

static struct goroutine_sum *sum_of(struct goroutine_ledger *l, uint64_t goroutine)
{
	const uint64_t *known = map_find(&l->index, goroutine);
	uint64_t *place;

	if (known)
		return &l->sums[*known - 1];
	if (l->count == GOROUTINE_ROWS_MOST_SUMS)
		return &l->beyond;
	if (!array_reserve(&l->sums, &l->capacity, l->count + 1))
		return NULL;
	place = map_at(&l->index, goroutine);
	if (!place)
		return NULL;
	l->sums[l->count].goroutine = goroutine;
	*place = ++l->count;
	return &l->sums[l->count - 1];
}

/* Longest first. A place that is listed already keeps its longest wait. */
static void note_wait(struct goroutine_sum *sum, uint32_t sample, uint64_t ns)
{
	struct goroutine_wait *waits = sum->waits;
	size_t at = 0;

	while (at < GOROUTINE_ROWS_WAITS - 1 && waits[at].ns && waits[at].sample != sample)
		at++;
	if (ns <= waits[at].ns)
		return;
	waits[at] = (struct goroutine_wait){ns, sample};
	for (; at && waits[at].ns > waits[at - 1].ns; at--) {
		struct goroutine_wait swap = waits[at];

		waits[at] = waits[at - 1];
		waits[at - 1] = swap;
	}
}

struct error *goroutine_ledger_add(struct goroutine_ledger *l, const struct profile *p,
				   const struct goroutine_time *time)
{
	struct goroutine_sum *sum = sum_of(l, time->goroutine);
	uint64_t ns = time->end - time->begin;
	enum profile_state state = p->samples[time->sample].state;

	if (!sum)
		return &error_no_memory;
	sum->wall_ns += ns;
	sum->start = sum->start ? sum->start : time->start;
	if (state == PROFILE_RUNNING)
		sum->cpu_ns += ns;
	if (state == PROFILE_WAITING)
		note_wait(sum, time->sample, ns);
	return NULL;
}

/* ---- choosing goroutines ---- */

struct ranked {
	uint64_t score;
	size_t sum;
};

struct ranking {
	struct ranked ranked[GOROUTINE_ROWS_EACH]; /* highest score first */
	size_t count;
};

static void rank(struct ranking *r, size_t sum, uint64_t score)
{
	size_t at = r->count;

	if (!score || (at == GOROUTINE_ROWS_EACH && score <= r->ranked[at - 1].score))
		return;
	at -= at == GOROUTINE_ROWS_EACH;
	r->count = at + 1;
	for (; at && r->ranked[at - 1].score < score; at--)
		r->ranked[at] = r->ranked[at - 1];
	r->ranked[at] = (struct ranked){score, sum};
}

/* For each sample: whether it waits for work. */
static struct error *find_awaiting(const struct profile *p, const struct profile_symbols *symbols,
				   bool *ret)
{
	_cleanup_symbol_stack_ struct symbol_stack stack = {0};
	struct error *err = NULL;

	for (size_t i = 0; !err && i < p->count; i++) {
		const struct profile_sample *sample = &p->samples[i];

		if (sample->state != PROFILE_WAITING)
			continue;
		err = symbols_stack(symbols, sample, &stack);
		if (!err)
			ret[i] = sample_awaits_work(p, symbols, sample, &stack);
	}
	return err;
}

static uint64_t longest_wait(const struct goroutine_sum *sum, uint64_t duration,
			     const bool *awaiting)
{
	for (size_t i = 0; i < GOROUTINE_ROWS_WAITS; i++)
		if (sum->waits[i].ns < duration && !awaiting[sum->waits[i].sample])
			return sum->waits[i].ns;
	return 0;
}

static bool make_rows(struct goroutine_rows *r)
{
	if (!r->rows)
		r->rows = calloc(2 * GOROUTINE_ROWS_EACH, sizeof(*r->rows));
	return r->rows;
}

static bool add_rows(struct goroutine_rows *r, const struct ranking *from,
		     const struct goroutine_ledger *l, uint64_t duration, const bool *awaiting)
{
	for (size_t i = 0; i < from->count; i++) {
		const struct goroutine_sum *sum = &l->sums[from->ranked[i].sum];
		uint64_t *place = map_at(&r->index, sum->goroutine);

		if (!place)
			return false;
		if (*place)
			continue;
		r->rows[r->count] = (struct goroutine_row){sum->goroutine, sum->start,
							   longest_wait(sum, duration, awaiting)};
		*place = ++r->count;
	}
	return true;
}

static void complete_rows(struct goroutine_rows *r, const struct goroutine_ledger *l,
			  uint64_t duration, const bool *awaiting)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct goroutine_sum *sum =
			&l->sums[*map_find(&l->index, r->rows[i].goroutine) - 1];

		r->rows[i].start = sum->start;
		r->rows[i].longest_ns = longest_wait(sum, duration, awaiting);
	}
}

static void sum_up_others(struct goroutine_rows *r, const struct goroutine_ledger *l)
{
	r->others_cpu_ns = l->beyond.cpu_ns;
	r->others_wall_ns = l->beyond.wall_ns;
	for (size_t i = 0; i < l->count; i++) {
		if (goroutine_rows_has(r, l->sums[i].goroutine))
			continue;
		r->others++;
		r->others_cpu_ns += l->sums[i].cpu_ns;
		r->others_wall_ns += l->sums[i].wall_ns;
	}
}

struct error *goroutine_ledger_choose(const struct goroutine_ledger *l, const struct profile *p,
				      const struct profile_symbols *symbols,
				      struct goroutine_rows *ret)
{
	_cleanup_free_ struct ranking *rankings = calloc(2, sizeof(*rankings));
	_cleanup_free_ bool *awaiting = calloc(p->count + 1, sizeof(*awaiting));
	struct error *err;

	if (!rankings || !awaiting || !make_rows(ret))
		return &error_no_memory;
	err = find_awaiting(p, symbols, awaiting);
	if (err)
		return err;
	if (ret->count == l->count) {
		complete_rows(ret, l, p->duration_ns, awaiting);
		return NULL;
	}
	for (size_t i = 0; i < l->count; i++) {
		rank(&rankings[0], i, l->sums[i].cpu_ns);
		rank(&rankings[1], i, longest_wait(&l->sums[i], p->duration_ns, awaiting));
	}
	for (size_t i = 0; i < 2; i++)
		if (!add_rows(ret, &rankings[i], l, p->duration_ns, awaiting))
			return &error_no_memory;
	sum_up_others(ret, l);
	return NULL;
}

/* ---- the times of the chosen ---- */

struct error *goroutine_rows_add(struct goroutine_rows *r, const struct goroutine_time *time)
{
	const uint64_t *row = map_find(&r->index, time->goroutine), *known;
	uint64_t key, ns = time->end - time->begin, *place;

	if (!row || !ns)
		return NULL;
	key = (*row - 1) << 32 | time->sample;
	known = map_find(&r->part_index, key);
	if (!known && r->part_count == GOROUTINE_ROWS_MOST_PARTS)
		return NULL;
	if (!known) {
		if (!array_reserve(&r->parts, &r->part_capacity, r->part_count + 1))
			return &error_no_memory;
		place = map_at(&r->part_index, key);
		if (!place)
			return &error_no_memory;
		r->parts[r->part_count] = (struct goroutine_part){*row - 1, time->sample, 0};
		*place = ++r->part_count;
		known = place;
	}
	r->parts[*known - 1].ns += ns;
	return timeline_add(&r->timeline, *known - 1, time->begin, time->end, ns);
}

struct error *goroutine_rows_offer(struct goroutine_rows *r, const struct goroutine_time *time)
{
	uint64_t *place;

	if (r->is_full || goroutine_rows_has(r, time->goroutine))
		return r->is_full ? NULL : goroutine_rows_add(r, time);
	if (r->count == 2 * GOROUTINE_ROWS_EACH) {
		goroutine_rows_release(r);
		r->is_full = true;
		return NULL;
	}
	place = make_rows(r) ? map_at(&r->index, time->goroutine) : NULL;
	if (!place)
		return &error_no_memory;
	r->rows[r->count] = (struct goroutine_row){.goroutine = time->goroutine};
	*place = ++r->count;
	return goroutine_rows_add(r, time);
}

void goroutine_ledger_release(struct goroutine_ledger *l)
{
	free(l->sums);
	map_release(&l->index);
	*l = (struct goroutine_ledger){0};
}

void goroutine_rows_release(struct goroutine_rows *r)
{
	free(r->rows);
	free(r->parts);
	map_release(&r->index);
	map_release(&r->part_index);
	timeline_release(&r->timeline);
	*r = (struct goroutine_rows){0};
}
