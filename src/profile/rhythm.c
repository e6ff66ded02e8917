#include "profile/rhythm.h"

#include <stdlib.h>

#include "base/cleanup.h"

/* Only the places with the most blocked time are examined. */
#define MOST_PLACES 24
/* The width of a bin; a wider column of the timeline is a bin by itself. */
#define BIN_NS 50000000u
/* A burst begins above, and ends below, these shares of the largest bin. */
#define BEGINS 0.35
#define ENDS 0.15
#define LEAST_BURSTS 4u
#define MOST_BURSTS 1024u
/* A period may differ from the median by JITTER of it; the share ALIKE of the periods must not
 * differ more. */
#define JITTER 0.2
#define ALIKE 0.75
/* The mean between bursts is less than this share of the mean within them. */
#define QUIET 0.2
#define LEAST_GOROUTINES 0.3

/* The mean number of goroutines in each bin of time. */
struct series {
	double *bins;
	size_t count;
	double bin_ns;
};

struct burst {
	size_t begin;
	size_t end;
};

static size_t columns_of_bin(const struct timeline *t)
{
	return t->width_ns && t->width_ns < BIN_NS ? BIN_NS / t->width_ns : 1;
}

/* The number of whole bins: a last bin that the end of the recording cuts is left out. */
static size_t bins_of(const struct profile *p)
{
	const struct timeline *t = &p->timeline;
	uint64_t width = t->width_ns * columns_of_bin(t);

	return t->width_ns ? p->duration_ns / width < t->columns / columns_of_bin(t)
				     ? p->duration_ns / width
				     : t->columns / columns_of_bin(t)
			   : 0;
}

static void add_run(const struct timeline *t, const struct timeline_step *step, uint32_t end,
		    struct series *to)
{
	size_t together = columns_of_bin(t);

	for (size_t c = step->column; c < end && c / together < to->count; c++)
		to->bins[c / together] += step->ns / to->bin_ns;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return values[count / 2];
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static size_t find_bursts(const struct series *s, struct burst *ret)
{
	double most = 0;
	size_t count = 0;
	bool within = false;

	for (size_t i = 0; i < s->count; i++)
		most = larger(most, s->bins[i]);
	for (size_t i = 0; i < s->count && count < MOST_BURSTS; i++) {
		if (!within && s->bins[i] > BEGINS * most)
			ret[count].begin = i;
		else if (within && s->bins[i] < ENDS * most)
			ret[count++].end = i;
		else
			continue;
		within = !within;
	}
	if (within && count < MOST_BURSTS)
		ret[count++].end = s->count;
	return count;
}

/* The mean within bursts, or 0 if the mean between them is too large. */
static double level_of(const struct series *s, const struct burst *bursts, size_t count)
{
	double inside = 0, outside = 0, length = 0;
	size_t next = 0;

	for (size_t i = 0; i < s->count; i++) {
		while (next < count && bursts[next].end <= i)
			next++;
		if (next < count && bursts[next].begin <= i) {
			inside += s->bins[i];
			length++;
		} else {
			outside += s->bins[i];
		}
	}
	if (!length || length == s->count)
		return 0;
	inside /= length;
	return outside / (s->count - length) < QUIET * inside ? inside : 0;
}

static bool is_like(double period, double usual, double bin)
{
	double by = period > usual ? period - usual : usual - period;

	return by <= larger(JITTER * usual, bin);
}

/* Sets the median period and length. period_ns is 0 if the periods differ too much. */
static void measure(const struct series *s, const struct burst *bursts, size_t count,
		    struct rhythm *ret)
{
	double periods[MOST_BURSTS], lengths[MOST_BURSTS], alike = 0;

	for (size_t i = 0; i < count; i++)
		lengths[i] = bursts[i].end - bursts[i].begin;
	for (size_t i = 0; i + 1 < count; i++)
		periods[i] = bursts[i + 1].begin - bursts[i].begin;
	ret->period_ns = median(periods, count - 1) * s->bin_ns;
	ret->burst_ns = median(lengths, count) * s->bin_ns;
	for (size_t i = 0; i + 1 < count; i++)
		alike += is_like(periods[i] * s->bin_ns, ret->period_ns, s->bin_ns);
	if (alike < ALIKE * (count - 1))
		ret->period_ns = 0;
}

/* period_ns is 0: no rhythm. */
static struct rhythm rhythm_of(const struct series *s)
{
	struct burst bursts[MOST_BURSTS];
	size_t count = find_bursts(s, bursts);
	struct rhythm ret = {0};

	if (count < LEAST_BURSTS || count == MOST_BURSTS)
		return ret;
	ret.goroutines = level_of(s, bursts, count);
	if (ret.goroutines >= LEAST_GOROUTINES)
		measure(s, bursts, count, &ret);
	return ret;
}

struct all_series {
	struct series items[MOST_PLACES];
};

static void release_series(struct all_series *s)
{
	for (size_t i = 0; i < MOST_PLACES; i++)
		free(s->items[i].bins);
}

static bool open_series(const struct profile *p, struct series *s, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		s[i].count = bins_of(p);
		s[i].bin_ns = (double)p->timeline.width_ns * columns_of_bin(&p->timeline);
		s[i].bins = calloc(s[i].count + 1, sizeof(*s[i].bins));
		if (!s[i].bins)
			return false;
	}
	return true;
}

/* Adds each step to the series of its sample's place. */
static void fill(const struct profile *p, const struct tally *tally, size_t places,
		 const struct timeline_step *steps, size_t count, struct series *series)
{
	for (size_t i = 0; i + 1 < count; i++) {
		size_t place = 0;

		if (!steps[i].ns || steps[i].row != steps[i + 1].row || steps[i].row >= p->count)
			continue;
		while (place < places &&
		       place_key(&tally->blocked.items[place]) != tally->blocked_at[steps[i].row])
			place++;
		if (place < places)
			add_run(&p->timeline, &steps[i], steps[i + 1].column, &series[place]);
	}
}

struct error *rhythm_find(const struct profile *p, const struct tally *tally, struct rhythm *ret)
{
	_cleanup_free_ struct timeline_step *steps = NULL;
	_cleanup_(release_series) struct all_series series = {0};
	size_t count,
		places = tally->blocked.count < MOST_PLACES ? tally->blocked.count : MOST_PLACES;
	struct error *err;

	*ret = (struct rhythm){0};
	if (!bins_of(p))
		return NULL;
	err = timeline_steps(&p->timeline, &steps, &count);
	if (err)
		return err;
	if (!open_series(p, series.items, places))
		return &error_no_memory;
	fill(p, tally, places, steps, count, series.items);
	for (size_t i = 0; i < places && !ret->period_ns; i++) {
		*ret = rhythm_of(&series.items[i]);
		ret->place = tally->blocked.items[i];
	}
	return NULL;
}

static double mean(const struct series *s, size_t from, size_t to)
{
	double sum = 0;

	for (size_t i = from; i < to; i++)
		sum += s->bins[i];
	return to > from ? sum / (to - from) : 0;
}

struct error *rhythm_growth(const struct profile *p, double *ret_first, double *ret_last)
{
	_cleanup_free_ struct timeline_step *steps = NULL;
	_cleanup_(release_series) struct all_series all = {0};
	struct series *s = all.items;
	size_t count, tenth = bins_of(p) / 10;
	struct error *err;

	*ret_first = *ret_last = 0;
	if (!tenth)
		return NULL;
	err = timeline_steps(&p->timeline, &steps, &count);
	if (err)
		return err;
	if (!open_series(p, s, 1))
		return &error_no_memory;
	for (size_t i = 0; i + 1 < count; i++)
		if (steps[i].ns && steps[i].row == steps[i + 1].row)
			add_run(&p->timeline, &steps[i], steps[i + 1].column, s);
	*ret_first = mean(s, 0, tenth);
	*ret_last = mean(s, s->count - tenth, s->count);
	return NULL;
}
