#include "sample/wall.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "sample/buckets.h"

/* Bytes of headers in a unit: large where all are read in order; small where few can be read at all
 * and many places count more than many goroutines (sampled at random, neighbours are alike). */
enum { UNIT_ORDERED = 256 << 10, UNIT_RANDOM = 32 << 10, UNIT_SCARCE = 8 << 10 };

/* What a first look at a goroutine costs, about, with its stack read and unwound. */
#define FIRST_LOOK_NS 800.0
/* What the first pass costs besides: function tables come from the page cache, nothing is known. */
#define FIRST_PASS_NS 5e6
/* The burst of a first full pass is paid off over the recording, or so many seconds of it. */
#define BURST_HORIZON 10.0

struct wall_sampler {
	struct target *t;
	struct goroutine_set *set;
	struct oncpu_sampler *on_cpu; /* NULL: not wanted, or not permitted */
	struct wall_options options;
	struct wall_result result;
	struct buckets buckets;
	uint64_t random;

	/* The rotation under way. */
	const struct goroutine_unit *units;
	size_t unit_count;
	uint32_t *order;
	size_t order_capacity;
	size_t next; /* in order */
	uint64_t rotation_began;
	uint64_t rotation_tick; /* in which it began */
	uint64_t last_ns;       /* how long the last complete one took */
	uint64_t credited;      /* ns that all complete rotations stand for */
	bool random_order;

	double tokens;    /* ns of CPU that may be used now */
	double rate;      /* ns of CPU that a ns of time adds */
	double unit_ns;   /* what a unit cost lately */
	uint64_t charged; /* CPU time of this process that was taken from the tokens */
};

static uint64_t next_random(struct wall_sampler *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random;
}

/* Ends what `before` stood for, at the beginning of this rotation. */
static void credit(struct wall_sampler *s, const struct goroutine_record *before)
{
	struct wall_bucket *b;

	if (before->owner_bucket == BUCKET_NONE)
		return;
	b = &s->buckets.items[before->owner_bucket];
	b->count += s->result.rotations - before->owner_rotation;
	b->ns += s->credited - before->owner_since;
	b->cpu_ns += b->status == G_RUNNING ? s->credited - before->owner_since : 0;
}

/* It ran between two looks: where it was, in up to a rotation, nobody knows. The variance of a time
 * between 0 and d of which only that is known is d^2 / 4 at most. */
static void add_doubt(struct wall_sampler *s, uint32_t bucket)
{
	double d = s->last_ns;

	if (bucket != BUCKET_NONE)
		s->buckets.items[bucket].variance += d * d / 4;
}

static bool is_wanted(const struct wall_sampler *s, const struct goroutine_record *r)
{
	if (!goroutine_is_alive(r) || (r->flags & GOROUTINE_SYSTEM && !s->options.system))
		return false;
	return !s->options.goid || s->options.goid == r->goid;
}

/* It is where it was, and did not leave it in between. Who runs saves its sp and pc now and then,
 * but trackingSeq tells when it stops. */
static bool stood_still(const struct goroutine_record *a, const struct goroutine_record *b)
{
	if (a->goid != b->goid || a->key != b->key || a->stack != b->stack ||
	    a->labels != b->labels)
		return false;
	return goroutine_status(b) == G_RUNNING ||
	       (a->sp == b->sp && a->pc == b->pc && a->tick == b->tick);
}

static struct error *changed(void *arg, const struct goroutine_record *before,
			     struct goroutine_record *now, const uint8_t *header)
{
	struct wall_sampler *s = arg;

	if (before->owner_bucket != BUCKET_NONE && stood_still(before, now))
		return NULL;
	credit(s, before);
	add_doubt(s, before->owner_bucket);
	now->owner_bucket = BUCKET_NONE;
	now->owner_since = s->credited;
	now->owner_rotation = s->result.rotations;
	if (!is_wanted(s, now))
		return NULL;
	now->owner_bucket = buckets_of(&s->buckets, now);
	add_doubt(s, now->owner_bucket);
	return now->owner_bucket == BUCKET_NONE ? &error_no_memory : NULL;
}

struct error *wall_sampler_open(struct target *t, const struct image *img,
				const struct golayout *lay, const struct wall_options *options,
				struct wall_sampler **ret)
{
	_cleanup_wall_sampler_ struct wall_sampler *s = calloc(1, sizeof(*s));
	struct goroutine_options goroutines = {
		.stack_limit = options->stack_limit,
		.keep_state = true,
		.changed = changed,
		.arg = s,
	};
	struct error *err;

	if (!s)
		return &error_no_memory;
	s->t = t;
	s->options = *options;
	if (getrandom(&s->random, sizeof(s->random), 0) < 0 || !s->random)
		s->random = clock_now() | 1;
	err = goroutine_set_open(t, img, lay, &goroutines, &s->set);
	if (err)
		return err;
	if (options->on_cpu)
		s->result.no_on_cpu = oncpu_sampler_open(t, img, lay, s->set, options->hz,
							 options->goid, &s->on_cpu);
	*ret = take_ptr(s);
	return NULL;
}

void wall_sampler_close(struct wall_sampler *s)
{
	if (!s)
		return;
	oncpu_sampler_close(s->on_cpu);
	goroutine_set_close(s->set);
	buckets_release(&s->buckets);
	error_destroy(s->result.no_on_cpu);
	error_destroy(s->result.ended);
	free(s->order);
	free(s);
}

static bool unlimited(const struct wall_sampler *s)
{
	return s->options.budget <= 0;
}

/* The first pass reads every stack. It may take at once what the whole recording may use, when that
 * is enough for all; then the rest of the recording has so much less. */
static bool take_burst(struct wall_sampler *s)
{
	double horizon = s->options.duration > 0 ? s->options.duration : BURST_HORIZON;
	double cost = (FIRST_PASS_NS + goroutine_set_count(s->set) * FIRST_LOOK_NS) / 1e9, budget;

	if (horizon > BURST_HORIZON)
		horizon = BURST_HORIZON;
	budget = s->options.budget * horizon;
	if (cost > budget)
		return false;
	s->rate = s->options.budget - cost / horizon;
	if (s->rate < s->options.budget / 4)
		s->rate = s->options.budget / 4;
	s->tokens = cost * 1e9;
	return true;
}

static void shuffle(struct wall_sampler *s)
{
	for (size_t i = s->unit_count; i > 1; i--) {
		size_t k = next_random(s) % i;
		uint32_t swap = s->order[i - 1];

		s->order[i - 1] = s->order[k];
		s->order[k] = swap;
	}
}

static size_t unit_size(struct wall_sampler *s)
{
	if (unlimited(s))
		return UNIT_ORDERED;
	if (!s->result.ticks) {
		s->random_order = !take_burst(s);
		return s->random_order ? UNIT_SCARCE : UNIT_ORDERED;
	}
	s->random_order = s->result.ticks > s->rotation_tick + 1;
	return s->random_order ? UNIT_RANDOM : UNIT_ORDERED;
}

static struct error *begin_rotation(struct wall_sampler *s, uint64_t now)
{
	struct error *err = goroutine_set_refresh(s->set);

	if (!err)
		err = goroutine_set_plan(s->set, unit_size(s), &s->units, &s->unit_count);
	if (err)
		return err;
	if (!array_reserve(&s->order, &s->order_capacity, s->unit_count))
		return &error_no_memory;
	for (size_t i = 0; i < s->unit_count; i++)
		s->order[i] = i;
	if (s->random_order)
		shuffle(s);
	s->next = 0;
	s->rotation_began = now;
	s->rotation_tick = s->result.ticks;
	return NULL;
}

static void end_rotation(struct wall_sampler *s, uint64_t now)
{
	s->last_ns = now - s->rotation_began;
	s->credited += s->last_ns;
	s->result.rotations++;
}

/* How many units may be visited now, by what they cost lately. */
static size_t affordable(const struct wall_sampler *s)
{
	size_t left = s->unit_count - s->next;
	double n = s->unit_ns > 0 ? s->tokens / s->unit_ns : 1;

	if (unlimited(s))
		return left;
	if (s->tokens <= 0)
		return 0;
	return n < 1 ? 1 : n < left ? (size_t)n : left;
}

/* Takes from the tokens what this process used since the last time; gives that. */
static uint64_t charge(struct wall_sampler *s)
{
	uint64_t now = clock_cpu(), used = now - s->charged;

	s->tokens -= used;
	s->charged = now;
	return used;
}

static struct error *visit(struct wall_sampler *s, size_t count)
{
	size_t visited;
	double each;
	struct error *err;

	charge(s);
	err = goroutine_set_visit(s->set, s->order + s->next, count, &visited);
	if (err)
		return err;
	s->next += visited;
	each = (double)charge(s) / visited;
	s->unit_ns = s->unit_ns > 0 ? 0.8 * s->unit_ns + 0.2 * each : each;
	return NULL;
}

/* Setting up is not charged: with a million goroutines, and 1 % of a core, nothing would be looked
 * at for seconds. And there is a first look, however small the budget. */
static void forget_set_up(struct wall_sampler *s)
{
	s->charged = clock_cpu();
	s->tokens = fmax(s->tokens, 1);
}

/* A rotation that is complete stands until the next can begin: in debt, what was seen last goes on.
 */
static bool may_begin(const struct wall_sampler *s)
{
	return s->next == s->unit_count && (!s->result.ticks || unlimited(s) || s->tokens > 0);
}

static struct error *tick(struct wall_sampler *s, uint64_t now)
{
	struct error *err = NULL;
	size_t n;

	if (may_begin(s)) {
		if (s->result.ticks)
			end_rotation(s, now);
		err = begin_rotation(s, now);
		if (!s->result.ticks)
			forget_set_up(s);
	}
	while (!err && s->next < s->unit_count && (n = affordable(s)))
		err = visit(s, n);
	if (!err && s->on_cpu)
		err = oncpu_sampler_drain(s->on_cpu);
	s->result.ticks++;
	return target_explain(s->t, err);
}

/* Adds the CPU time that may be used, up to that of 20 ticks. */
static void earn(struct wall_sampler *s, uint64_t passed, uint64_t period)
{
	double most = 20 * s->rate * period;

	s->tokens += s->rate * passed;
	if (s->tokens > most)
		s->tokens = most;
}

/* Sleeps until the next tick; those that are over by now are left out. */
static void sleep_until_next(struct wall_sampler *s, uint64_t *next, uint64_t period)
{
	uint64_t now = clock_now();
	struct timespec ts;

	*next += period;
	if (now > *next) {
		uint64_t late = (now - *next) / period;

		s->result.missed += late;
		*next += late * period;
	}
	ts = (struct timespec){*next / 1000000000, *next % 1000000000};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		if (*s->options.stop)
			break;
}

static struct error *loop(struct wall_sampler *s, uint64_t start)
{
	uint64_t period = 1e9 / s->options.hz, next = start, before = start, told = start;
	uint64_t end = s->options.duration > 0 ? start + s->options.duration * 1e9 : UINT64_MAX;
	struct error *err = NULL;

	for (uint64_t now = start; !err && !*s->options.stop && now < end; now = clock_now()) {
		earn(s, now - before, period);
		charge(s);
		before = now;
		err = tick(s, now);
		if (s->options.progress && now - told > 1000000000) {
			told = now;
			s->options.progress(s->options.arg, (now - start) / 1e9,
					    goroutine_set_stats(s->set)->visits);
		}
		if (!err && next + period < end)
			sleep_until_next(s, &next, period);
		else if (!err)
			sleep_until_next(s, &next, end - next);
	}
	return err;
}

/* The rest of each goroutine's time, and whether it was idle all through. */
static void finish_record(struct wall_sampler *s, const struct goroutine_record *r, bool visited,
			  double last_ns)
{
	struct wall_bucket *b;
	uint64_t ns, count;

	if (r->owner_bucket == BUCKET_NONE)
		return;
	b = &s->buckets.items[r->owner_bucket];
	ns = s->credited - r->owner_since + (visited ? (uint64_t)last_ns : 0);
	count = s->result.rotations - r->owner_rotation + visited;
	b->ns += ns;
	b->count += count;
	b->partial_ns += visited ? (uint64_t)last_ns : 0;
	b->cpu_ns += goroutine_status(r) == G_RUNNING ? ns : 0;
	if (!r->owner_rotation && goroutine_status(r) != G_RUNNING &&
	    goroutine_status(r) != G_RUNNABLE) {
		b->idle_ns += ns;
		b->idle_count += count;
	}
}

/* The rotation under way was cut short: its visits stand for the time that it had, and for those
 * units, too, that it did not come to. */
static void finish(struct wall_sampler *s, uint64_t now)
{
	const struct goroutine_record *records = goroutine_set_records(s->set);
	double last_ns = s->next ? (double)(now - s->rotation_began) * s->unit_count / s->next : 0;

	for (size_t i = 0; i < s->unit_count; i++) {
		const struct goroutine_unit *u = &s->units[s->order[i]];

		for (uint32_t k = u->first; k < u->first + u->count; k++)
			finish_record(s, &records[k], i < s->next, last_ns);
	}
}

/* Without samples what runs stays [running]. */
static struct error *join(struct wall_sampler *s)
{
	const struct oncpu_bucket *samples;
	size_t count;

	if (!s->on_cpu)
		return NULL;
	count = oncpu_sampler_buckets(s->on_cpu, &samples);
	s->result.on_cpu = oncpu_sampler_stats(s->on_cpu);
	return buckets_join(&s->buckets, s->set, samples, count, s->result.on_cpu.period_ns,
			    s->options.system);
}

/* Of a rotation cut short only some units were seen: a random sample of them. */
static void add_sampling_error(struct wall_sampler *s)
{
	double seen = s->unit_count ? (double)s->next / s->unit_count : 1, total = 0;

	for (size_t i = 1; i < s->buckets.count; i++)
		total += s->buckets.items[i].partial_ns;
	for (size_t i = 1; total > 0 && s->next && i < s->buckets.count; i++) {
		double share = s->buckets.items[i].partial_ns / total;

		s->buckets.items[i].variance +=
			(1 - seen) * share * (1 - share) / s->next * total * total;
	}
}

static double total_ns(const struct wall_sampler *s)
{
	double total = 0;

	for (size_t i = 1; i < s->buckets.count; i++)
		total += s->buckets.items[i].ns;
	return total;
}

/* The worst stack's standard error, as a share of all time, twice. */
static double error_of(const struct wall_sampler *s)
{
	double total = total_ns(s), worst = 0;

	for (size_t i = 1; i < s->buckets.count; i++)
		worst = fmax(worst, s->buckets.items[i].variance);
	return total > 0 ? 2 * sqrt(worst) / total : 0;
}

struct error *wall_sampler_run(struct wall_sampler *s)
{
	uint64_t cpu = s->charged = clock_cpu(), start = clock_now(), end;
	struct error *err;

	s->result.start_ns = clock_read(CLOCK_REALTIME);
	s->rate = s->options.budget;
	s->rotation_began = start;
	err = loop(s, start);
	end = clock_now();
	if (err && err->code == ERROR_GONE)
		s->result.ended = err;
	else if (err)
		return err;
	finish(s, end);
	add_sampling_error(s);
	s->result.error = error_of(s);
	s->result.goroutines = end > start ? total_ns(s) / (end - start) : 0;
	err = join(s);
	if (err)
		return err;
	s->result.duration_ns = end - start;
	s->result.looks =
		s->result.rotations + (s->unit_count ? (double)s->next / s->unit_count : 0);
	s->result.cpu_ns = clock_cpu() - cpu;
	s->result.per_tick =
		s->result.ticks ? (double)goroutine_set_stats(s->set)->visits / s->result.ticks : 0;
	return NULL;
}

const struct wall_result *wall_sampler_result(const struct wall_sampler *s)
{
	return &s->result;
}

struct goroutine_set *wall_sampler_set(struct wall_sampler *s)
{
	return s->set;
}

struct modules *wall_sampler_modules(const struct wall_sampler *s)
{
	return s->on_cpu ? oncpu_sampler_modules(s->on_cpu) : NULL;
}

size_t wall_sampler_buckets(const struct wall_sampler *s, const struct wall_bucket **ret)
{
	*ret = s->buckets.items;
	return s->buckets.count;
}
