#include "sample/precision.h"

#include <math.h>
#include <stdlib.h>

#include "base/array.h"

/* After this many passes, their variance is used for the first pass, too. */
#define ENOUGH_ROTATIONS 4
#define MISS 0.05

static bool note(struct precision *p, uint32_t bucket, double change)
{
	struct tally *t;

	if (!array_reserve(&p->tallies, &p->capacity, bucket + 1) ||
	    !array_reserve(&p->in_tick, &p->tick_capacity, p->tick_count + 1) ||
	    !array_reserve(&p->in_pass, &p->pass_capacity, p->pass_count + 1))
		return false;
	t = &p->tallies[bucket];
	t->delta += change;
	if (!t->in_tick)
		p->in_tick[p->tick_count++] = bucket;
	if (!t->in_pass)
		p->in_pass[p->pass_count++] = bucket;
	t->in_tick = t->in_pass = true;
	return true;
}

bool precision_look(struct precision *p, uint32_t before, uint32_t now)
{
	if (before == BUCKET_NONE && now == BUCKET_NONE)
		return true;
	p->tick_looks++;
	if (before == now)
		return true;
	return (before == BUCKET_NONE || note(p, before, -1)) &&
	       (now == BUCKET_NONE || note(p, now, 1));
}

void precision_end_tick(struct precision *p)
{
	for (size_t i = 0; i < p->tick_count; i++) {
		struct tally *t = &p->tallies[p->in_tick[i]];

		t->squares += t->delta * t->delta;
		t->net += t->delta;
		t->first_products += p->passes ? 0 : t->delta * p->tick_looks;
		t->delta = 0;
		t->in_tick = false;
	}
	if (!p->passes) {
		p->first_looks += p->tick_looks;
		p->first_looks_squares += p->tick_looks * p->tick_looks;
	} else {
		p->moving_ticks += p->tick_looks > 0;
	}
	p->pass_looks += p->tick_looks;
	p->pass_ticks++;
	p->ticks++;
	p->tick_count = 0;
	p->tick_looks = 0;
}

/*
 * The variance of one sample, from a squared difference. Two samples differ by twice the variance
 * of one. But samples of one pass at different times may each differ from the mean, if goroutines
 * move in step.
 */
static double variance_of_square(const struct precision *p)
{
	return p->pass_ticks > 1 ? p->pass_ticks / (p->pass_ticks + 1.0) : 0.5;
}

static void clear_pass(struct precision *p)
{
	for (size_t i = 0; i < p->pass_count; i++) {
		struct tally *t = &p->tallies[p->in_pass[i]];

		t->net = t->squares = 0;
		t->in_pass = false;
	}
	p->pass_count = 0;
	p->pass_looks = 0;
	p->pass_ticks = 0;
}

static void end_first(struct precision *p, double ns)
{
	for (size_t i = 0; i < p->pass_count; i++) {
		struct tally *t = &p->tallies[p->in_pass[i]];

		t->first = t->net;
		t->first_squares = t->squares;
	}
	p->first_ns = ns;
	p->first_ticks = p->pass_ticks;
}

void precision_end_pass(struct precision *p, double ns)
{
	double weight = variance_of_square(p);

	if (!p->passes)
		end_first(p, ns);
	for (size_t i = 0; p->passes && i < p->pass_count; i++) {
		struct tally *t = &p->tallies[p->in_pass[i]];

		t->variance += ns * ns * weight * t->squares;
		t->past_squares += weight * t->squares;
	}
	p->moving_ns += p->passes ? ns * p->pass_looks : 0;
	p->passes++;
	clear_pass(p);
}

/* Which goroutines were sampled varies, as well as the time. */
void precision_cut_pass(struct precision *p, double ns, double scale)
{
	double weight = scale * (scale - 1) + variance_of_square(p) * scale;

	if (!p->passes)
		end_first(p, ns * scale);
	for (size_t i = 0; p->passes && i < p->pass_count; i++) {
		struct tally *t = &p->tallies[p->in_pass[i]];

		t->variance += ns * ns * weight * t->squares;
	}
	p->moving_ns += p->passes ? ns * scale * p->pass_looks : 0;
	clear_pass(p);
}

double precision_net(const struct precision *p, uint32_t bucket)
{
	return bucket < p->capacity ? p->tallies[bucket].net : 0;
}

static double first_variance(const struct precision *p, const struct tally *t)
{
	double share, ticks = p->first_ticks, squares;

	if (p->passes >= ENOUGH_ROTATIONS)
		return p->first_ns * p->first_ns * t->past_squares / (p->passes - 1);
	if (p->first_ticks < 2 || !p->first_looks)
		return 0;
	share = t->first / p->first_looks;
	squares = t->first_squares - 2 * share * t->first_products +
		  share * share * p->first_looks_squares;
	return p->first_ns * p->first_ns * fmax(squares, 0) * ticks / (ticks - 1);
}

static double total_ns(const struct buckets *b)
{
	double total = 0;

	for (size_t i = 1; i < b->count; i++)
		total += b->items[i].ns;
	return total;
}

/* The time that one draw of moving goroutines stands for. If no goroutine was seen twice, all may
 * move. */
static double grain_of(const struct precision *p, double total)
{
	double again = total - p->first_ns * p->first_looks;

	if (!p->ticks)
		return total;
	if (again < total * 1e-9)
		return total / p->ticks;
	return p->moving_ticks ? total * fmin(p->moving_ns / again, 1) / p->moving_ticks : 0;
}

void precision_finish(const struct precision *p, struct buckets *b)
{
	double grain = grain_of(p, total_ns(b));

	for (size_t i = 1; i < b->count; i++) {
		const struct tally *t = i < p->capacity ? &p->tallies[i] : &(struct tally){0};

		b->items[i].variance = t->variance + first_variance(p, t);
		b->items[i].grain = grain;
	}
}

/*
 * How probable it is that a stack's time is off by more than `error`, by the normal distribution.
 * The true variance of rare draws exceeds the observed one by up to `grain`.
 */
static double miss(double variance, double grain, double error)
{
	double spread = variance + grain * error;

	return spread > 0 ? erfc(error / sqrt(2 * spread)) : 0;
}

static double any_miss(const struct buckets *b, double grain, double error)
{
	double sum = miss(0, grain, error);

	for (size_t i = 1; i < b->count && sum <= MISS; i++)
		if (b->items[i].variance > 0)
			sum += miss(b->items[i].variance, b->items[i].grain, error);
	return sum;
}

/* Before the first sample of a goroutine and after the last one, it may have moved so rarely that
 * no tick saw it. */
static double error_of_ends(const struct precision *p)
{
	double n = p->ticks;

	return n > 3 ? 3 / (n * n) : 1 / n;
}

double precision_error(const struct precision *p, const struct buckets *b)
{
	double total = total_ns(b), low = 0, high = total, grain = 0;

	if (!p->ticks || !total)
		return 1;
	for (size_t i = 1; i < b->count; i++)
		grain = fmax(grain, b->items[i].grain);
	for (int i = 0; i < 40; i++) {
		double middle = (low + high) / 2;

		if (any_miss(b, grain, middle) > MISS)
			low = middle;
		else
			high = middle;
	}
	return fmin(high / total + error_of_ends(p), 1);
}

void precision_release(struct precision *p)
{
	free(p->tallies);
	free(p->in_tick);
	free(p->in_pass);
	*p = (struct precision){0};
}
