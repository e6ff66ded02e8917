#include "sample/wall.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/permit.h"
#include "sample/budget.h"
#include "sample/estimate.h"
#include "sample/interval.h"
#include "sample/join.h"
#include "sample/parts.h"

/* Bytes of headers in a unit. Units are large where all are read in order, and small where only few
 * can be read: then many places count more than many goroutines, because neighbours are alike. */
enum { UNIT_ORDERED = 256 << 10, UNIT_RANDOM = 32 << 10, UNIT_SCARCE = 8 << 10 };

/* With a larger budget, gospect does not raise its priority. */
#define MOST_URGENT 0.05
/* The first sample comes within this time. */
#define MOST_DELAY_NS 100000000u
/* At most this many ticks are skipped, because on-CPU samples must be read: their ring fills up in
 * half a second, and the target's memory changes meanwhile. */
#define MOST_LEFT_OUT 4
/* The most go statements; a hostile program may make up more. */
#define MOST_CREATORS (1u << 16)
/* How often a sleeping sampler checks whether it was stopped. */
#define MOST_SLEEP_NS 50000000u
#define LONG_SLEEP_NS 1000000000u
/* The shortest interval between parts, and the largest share of the budget for them. */
#define LEAST_PART_NS 10000000u
#define PART_OF_BUDGET 0.05

struct wall_sampler {
	struct target *t;
	struct goroutine_set *set;
	struct cpu_source cpu; /* all zero: there is none */
	struct wall_options options;
	struct wall_result result;
	uint64_t started;
	struct estimate estimate;
	const struct goroutine_unit *units;
	size_t next;        /* unit to scan, in the estimate's order */
	uint64_t pass_tick; /* in which this pass began */
	uint64_t last_tick; /* when something was scanned last */
	double squares;     /* see struct wall_looks */

	struct budget budget;
	uint64_t charged; /* CPU time of this thread that was taken from the tokens */

	uint64_t period; /* the next tick's */
	uint64_t earned; /* the time up to which tokens were earned */
	int left_out;    /* consecutive ticks that were slept through */
	bool drawn;      /* the next tick may sample: see draw_look() */
	uint64_t looked; /* when the tick of the current scans began */
	uint64_t told;   /* time of the last progress report */
	bool ahead;      /* with real-time priority: see get_ahead() */
	bool stepped;
	bool paused;
	struct interval interval;
	struct parts parts;
	uint64_t part_due; /* when the next part is delivered */

	/* Go statements by their number, from 1 on. */
	uint64_t *creators;
	size_t creator_count;
	size_t creator_capacity;
	struct map creator_ids;
	struct map waits; /* goid -> when its wait began, as of the first sample */
};

static bool is_wanted(const struct wall_sampler *s, const struct goroutine_record *r)
{
	if (!goroutine_is_alive(r) || (r->flags & GOROUTINE_SYSTEM && !s->options.system))
		return false;
	return !s->options.goid || s->options.goid == r->goid;
}

/* 0: no memory, or not created by a go statement. */
static uint32_t creator_id(struct wall_sampler *s, uint64_t go_pc)
{
	uint64_t *id = go_pc && go_pc != MAP_NO_KEY ? map_at(&s->creator_ids, go_pc) : NULL;

	if (!id)
		return 0;
	if (!*id) {
		bool many = s->creator_count >= MOST_CREATORS;

		s->result.creators_left_out += many;
		if (many ||
		    !array_reserve(&s->creators, &s->creator_capacity, s->creator_count + 2)) {
			map_remove(&s->creator_ids, go_pc);
			return 0;
		}
		*id = ++s->creator_count;
		s->creators[*id] = go_pc;
	}
	return *id;
}

/* Notes details of a goroutine that was just found. */
static void note_details(struct wall_sampler *s, struct goroutine_record *now,
			 const uint8_t *header)
{
	struct goroutine_details details;
	uint64_t *since;

	goroutine_details(s->set, header, &details);
	now->owner_creator = creator_id(s, details.go_pc);
	if (s->estimate.passes || !details.wait_since || now->goid == MAP_NO_KEY)
		return;
	since = map_at(&s->waits, now->goid);
	if (since)
		*since = details.wait_since;
}

static struct error *changed(void *arg, const struct goroutine_record *before,
			     struct goroutine_record *now, const uint8_t *header)
{
	struct wall_sampler *s = arg;

	if (s->options.creators && goroutine_is_alive(now) &&
	    (before->goid != now->goid || !goroutine_is_alive(before)))
		note_details(s, now, header);
	if (s->options.moved && (is_wanted(s, now) || is_wanted(s, before)))
		s->options.moved(s->options.moved_arg, before, now, s->looked);
	return estimate_see(&s->estimate, before, now, is_wanted(s, now));
}

static void fall_back(struct wall_sampler *s)
{
	if (s->ahead)
		sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	s->ahead = false;
}

struct error *wall_sampler_open(struct target *t, const struct image *img,
				const struct golayout *lay, const struct wall_options *options,
				struct wall_sampler **ret)
{
	_cleanup_wall_sampler_ struct wall_sampler *s = calloc(1, sizeof(*s));
	struct goroutine_options goroutines = {
		.stack_limit = options->stack_limit,
		.read_bytes = options->read_bytes,
		.keep_state = true,
		.changed = changed,
		.arg = s,
		.unwind = options->unwind,
		.request_names = options->request_names,
		.request_paths = options->request_paths,
		.request_ids = options->request_ids,
	};
	struct error *err;
	uint64_t seed;

	if (!s)
		return &error_no_memory;
	s->t = t;
	s->options = *options;
	s->parts.part = options->part;
	s->parts.arg = options->part_arg;
	budget_init(&s->budget, options->budget, options->hz, options->duration);
	if (getrandom(&seed, sizeof(seed), 0) < 0 || !seed)
		seed = clock_now() | 1;
	estimate_init(&s->estimate, seed);
	s->estimate.stayed = options->stayed;
	s->estimate.stayed_arg = options->stayed_arg;
	err = goroutine_set_open(t, img, lay, &goroutines, &s->set);
	if (err)
		return err;
	*ret = take_ptr(s);
	return NULL;
}

void wall_sampler_close(struct wall_sampler *s)
{
	if (!s)
		return;
	fall_back(s);
	goroutine_set_close(s->set);
	estimate_release(&s->estimate);
	interval_release(&s->interval);
	interval_release(&s->parts.interval);
	map_release(&s->creator_ids);
	map_release(&s->waits);
	free(s->creators);
	error_destroy(s->result.ended);
	free(s);
}

void wall_sampler_use(struct wall_sampler *s, const struct cpu_source *source)
{
	s->cpu = *source;
}

static bool unlimited(const struct wall_sampler *s)
{
	return budget_is_unlimited(&s->budget);
}

/* The CPU time of this thread since the last call. */
static uint64_t used(struct wall_sampler *s)
{
	uint64_t now = clock_cpu(), since = s->charged;

	s->charged = now;
	return now - since;
}

static bool may_read_all(struct wall_sampler *s)
{
	if (!s->options.whole_first)
		return budget_borrow(&s->budget, goroutine_set_count(s->set));
	budget_give_all(&s->budget);
	return true;
}

static size_t ordered_unit_size(const struct wall_sampler *s)
{
	size_t given = s->options.read_bytes;

	return given && given < UNIT_ORDERED ? given : UNIT_ORDERED;
}

static size_t unit_size(struct wall_sampler *s, bool at_once)
{
	if (unlimited(s))
		return ordered_unit_size(s);
	if (!s->result.ticks)
		return may_read_all(s) ? ordered_unit_size(s) : UNIT_SCARCE;
	return at_once ? ordered_unit_size(s) : UNIT_RANDOM;
}

static double squared(uint64_t ns)
{
	return ns / 1e9 * (ns / 1e9);
}

/* A pass of several units scans each at a random instant: so the interval between the scans of two
 * passes has a variance of a sixth of the squared pass (the sum of two uniform variables). */
static void note_pass(struct wall_sampler *s, uint64_t end)
{
	if (s->estimate.unit_count > 1 && end > s->estimate.began)
		s->squares += squared(end - s->estimate.began) * 7 / 6;
}

/* Begins a pass; its time starts at `began`. `at_once`: the pass before took no more than its first
 * tick.
 */
static struct error *begin_pass(struct wall_sampler *s, uint64_t began, bool at_once)
{
	struct error *err;
	size_t count;

	if (s->result.ticks) {
		note_pass(s, began);
		estimate_end_pass(&s->estimate, began);
	}
	err = goroutine_set_refresh(s->set);
	if (!err)
		err = goroutine_set_plan(s->set, unit_size(s, at_once), &s->units, &count);
	if (!err)
		err = estimate_begin_pass(&s->estimate, began, count, !unlimited(s));
	s->next = 0;
	s->drawn = false;
	s->pass_tick = s->result.ticks;
	return err;
}

/* The time that this tick's samples stand for begins half-way to the tick before. */
static uint64_t tick_begins(const struct wall_sampler *s, uint64_t now)
{
	return s->result.ticks ? s->last_tick + (now - s->last_tick) / 2 : s->started;
}

static struct error *begin_with_tick(struct wall_sampler *s, uint64_t now)
{
	bool at_once = s->result.ticks <= s->pass_tick + 1;
	struct error *err = begin_pass(s, tick_begins(s, now), at_once);

	if (!s->result.ticks)
		budget_add_set_up(&s->budget, used(s));
	return err;
}

/* How many units may be scanned now. */
static size_t affordable(const struct wall_sampler *s)
{
	size_t left = s->estimate.unit_count - s->next;

	return s->estimate.unit_count == 1 ? left : budget_affords(&s->budget, left);
}

static struct error *scan(struct wall_sampler *s, size_t count)
{
	size_t scanned;
	struct error *err;

	budget_use(&s->budget, used(s));
	err = goroutine_set_scan(s->set, s->estimate.order + s->next, count, &scanned);
	if (err)
		return err;
	s->next += scanned;
	budget_use_for_units(&s->budget, used(s), scanned);
	return NULL;
}

static bool draw_look(struct wall_sampler *s)
{
	return s->budget.tokens > 0 || budget_draw(&s->budget, estimate_random(&s->estimate));
}

/* While in debt, a complete pass stands until the next can begin. */
static bool may_begin(struct wall_sampler *s)
{
	if (s->next < s->estimate.unit_count)
		return false;
	if (!s->result.ticks || unlimited(s))
		return true;
	return s->estimate.unit_count == 1 ? s->drawn || draw_look(s) : s->budget.tokens > 0;
}

static struct error *scan_affordable(struct wall_sampler *s)
{
	struct error *err = NULL;
	size_t n;

	while (!err && s->next < s->estimate.unit_count && (n = affordable(s)))
		err = scan(s, n);
	estimate_end_tick(&s->estimate, s->next);
	return err;
}

/*
 * A pass of several ticks ends in the middle of one, after `scanned` of its looks, and the next
 * begins there: so that all parts of a pass's time have the same density of samples.
 */
static struct error *begin_within_tick(struct wall_sampler *s, uint64_t now, double scanned)
{
	double more = fmin(budget_units(&s->budget), s->estimate.unit_count);
	double part = scanned / (scanned + more);

	return begin_pass(s, tick_begins(s, now) + part * 1e9 / s->options.hz, false);
}

static struct error *tick(struct wall_sampler *s, uint64_t now)
{
	struct error *err = may_begin(s) ? begin_with_tick(s, now) : NULL;
	size_t before = s->next;
	bool looked;

	if (!err)
		err = scan_affordable(s);
	looked = s->next > before;
	if (!err && s->pass_tick < s->result.ticks && may_begin(s)) {
		err = begin_within_tick(s, now, s->next - before);
		if (!err)
			err = scan_affordable(s);
	}
	if (looked && s->estimate.unit_count == 1)
		s->squares += squared(now - s->last_tick);
	if (looked)
		s->last_tick = now;
	if (!err && s->cpu.drain)
		err = s->cpu.drain(s->cpu.arg);
	s->result.ticks++;
	return target_explain(s->t, err);
}

static void sleep_until(struct wall_sampler *s, uint64_t moment)
{
	uint64_t now = clock_now(), most = s->options.sleeps_long ? LONG_SLEEP_NS : MOST_SLEEP_NS;

	/* Another thread may stop it, which does not interrupt a sleep. */
	while (now < moment && !*s->options.stop) {
		uint64_t until = moment - now > most ? now + most : moment;
		struct timespec ts = {until / 1000000000, until % 1000000000};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		now = clock_now();
	}
}

/*
 * Waking up costs CPU time, too: on some virtual machines 65 us, as much as sampling all
 * goroutines. So gospect sleeps through a tick that may not sample; the earnings up to then are
 * known.
 */
static bool is_worth_waking(struct wall_sampler *s, uint64_t moment)
{
	budget_earn(&s->budget, moment - s->earned);
	s->earned = moment;
	/* Context switches fill the ring many times as fast as samples do. */
	if (unlimited(s) || !s->result.ticks || s->left_out == MOST_LEFT_OUT || s->cpu.fills_fast)
		return true;
	s->drawn = may_begin(s);
	return s->drawn || (s->next < s->estimate.unit_count && affordable(s));
}

static void leave_out(struct wall_sampler *s)
{
	s->result.ticks++;
	s->left_out++;
}

/* Sleeps until a random time in the next period or a later one; ticks that have passed are skipped.
 * False: there is none. */
static bool sleep_until_tick(struct wall_sampler *s, uint64_t end)
{
	uint64_t length = 1e9 / s->options.hz, now = clock_now(), moment;

	for (;; s->period++) {
		uint64_t from = s->started + s->period * length;
		/* The first sample comes within MOST_DELAY_NS. */
		uint64_t room = s->period || length < MOST_DELAY_NS ? length : MOST_DELAY_NS;

		if (from >= end) {
			sleep_until(s, end);
			return false;
		}
		moment = from + fmin(room, end - from) * estimate_random(&s->estimate);
		if (moment < now)
			s->result.missed++;
		else if (is_worth_waking(s, moment))
			break;
		else
			leave_out(s);
	}
	sleep_until(s, moment);
	s->period++;
	return true;
}

/*
 * On a busy machine a sample would come late, after the target's threads have run, and would show
 * another state. A preempted reader also holds the target's mmap_lock. With CAP_SYS_NICE gospect
 * does not wait. The budget is small, so after the first pass this delays no other thread for long.
 */
static bool get_ahead(const struct wall_sampler *s)
{
	struct sched_param first = {.sched_priority = 1};

	return permitted(PERMIT_PRIORITY) && !unlimited(s) && s->options.budget <= MOST_URGENT &&
	       sched_getscheduler(0) == SCHED_OTHER &&
	       !sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

static void report_progress(struct wall_sampler *s, uint64_t now)
{
	if (!s->options.progress || now - s->told <= 1000000000)
		return;
	s->told = now;
	s->options.progress(s->options.arg, (now - s->started) / 1e9,
			    goroutine_set_stats(s->set)->scans);
}

static void begin_time(struct wall_sampler *s)
{
	s->charged = clock_cpu();
	s->started = s->last_tick = s->earned = s->told = clock_now();
	s->result.start_ns = clock_read(CLOCK_REALTIME);
}

/* The sample of a held program stands for the time from now on: the program may end before the
 * first tick. */
static struct error *must_check look_before(struct wall_sampler *s)
{
	struct error *err = tick(s, clock_now());

	begin_time(s);
	estimate_begin_at(&s->estimate, s->started);
	return err;
}

struct error *wall_sampler_begin(struct wall_sampler *s)
{
	struct error *err = NULL;

	begin_time(s);
	if (s->options.held)
		err = look_before(s);
	if (s->options.progress)
		s->options.progress(s->options.arg, 0, goroutine_set_stats(s->set)->scans);
	return err;
}

/* A duration may exceed the range of the clock. */
static uint64_t end_of(const struct wall_sampler *s)
{
	double ns = s->options.duration * 1e9;

	return ns > 0 && ns < (double)(UINT64_MAX - s->started) ? s->started + (uint64_t)ns
								: UINT64_MAX;
}

struct error *wall_sampler_step(struct wall_sampler *s, bool *ret_more)
{
	uint64_t end = end_of(s);
	struct error *err;
	uint64_t now;

	if (s->paused)
		s->charged = clock_cpu();
	budget_use(&s->budget, used(s));
	budget_defer(&s->budget);
	*ret_more = !*s->options.stop && sleep_until_tick(s, end) && !*s->options.stop;
	if (!*ret_more)
		return NULL;
	s->left_out = 0;
	s->looked = now = clock_now();
	err = tick(s, now);
	report_progress(s, now);
	if (!s->stepped || s->paused)
		s->ahead = get_ahead(s);
	s->stepped = true;
	s->paused = false;
	return err;
}

void wall_sampler_pause(struct wall_sampler *s)
{
	fall_back(s);
	s->paused = true;
}

static struct error *report_part_if_due(struct wall_sampler *s)
{
	uint64_t cpu, pause = LEAST_PART_NS, now = clock_now();
	struct error *err;

	if (!s->parts.part || now < s->part_due)
		return NULL;
	cpu = clock_cpu();
	err = parts_report(&s->parts, &s->estimate, s->set, &s->cpu, now - s->started);
	if (!unlimited(s))
		pause = fmax(pause, (clock_cpu() - cpu) / (PART_OF_BUDGET * s->options.budget));
	s->part_due = clock_now() + pause;
	return err;
}

static struct error *loop(struct wall_sampler *s)
{
	struct error *err = wall_sampler_begin(s);
	bool more = true;

	while (!err && more) {
		err = wall_sampler_step(s, &more);
		if (!err)
			err = report_part_if_due(s);
	}
	fall_back(s);
	return err;
}

/* Without on-CPU samples, running goroutines stay [running]. */
static struct error *join(struct wall_sampler *s)
{
	const struct cpu_bucket *samples;
	size_t count;

	if (!s->cpu.buckets)
		return NULL;
	count = s->cpu.buckets(s->cpu.arg, &samples);
	return buckets_join(&s->estimate.buckets, s->set, samples, count, s->cpu.period_ns,
			    s->options.system);
}

static double total_ns(const struct wall_sampler *s)
{
	double total = 0;

	for (size_t i = 1; i < s->estimate.buckets.count; i++)
		total += s->estimate.buckets.items[i].ns;
	return total;
}

struct wall_looks wall_sampler_looks(const struct wall_sampler *s)
{
	const struct estimate *e = &s->estimate;
	bool cut = e->next < e->unit_count;

	return (struct wall_looks){
		.count = e->passes + (cut ? (double)e->next / e->unit_count : 0),
		.squares = s->squares,
	};
}

struct error *wall_sampler_run(struct wall_sampler *s)
{
	uint64_t cpu = clock_cpu(), end;
	struct error *err;

	err = loop(s);
	end = clock_now();
	/* After an error in the target's memory, the samples so far are kept. */
	if (err && err->code != ERROR_GONE && !s->result.ticks)
		return err;
	s->result.ended = err;
	err = parts_report(&s->parts, &s->estimate, s->set, &s->cpu, end - s->started);
	if (err)
		return err;
	estimate_finish(&s->estimate, end, goroutine_set_records(s->set), s->units);
	err = parts_report_rest(&s->parts, &s->estimate, end - s->started);
	if (err)
		return err;
	s->result.goroutines = end > s->started ? total_ns(s) / (end - s->started) : 0;
	err = join(s);
	if (err)
		return err;
	s->result.error = precision_error(&s->estimate.precision, &s->estimate.buckets);
	s->result.duration_ns = end - s->started;
	s->result.passes = s->estimate.passes;
	s->result.crowded = s->estimate.buckets.crowded;
	s->result.looks = wall_sampler_looks(s).count;
	s->result.cpu_ns = clock_cpu() - cpu;
	s->result.per_tick =
		s->result.ticks ? (double)goroutine_set_stats(s->set)->scans / s->result.ticks : 0;
	return NULL;
}

struct error *wall_sampler_interval(struct wall_sampler *s, struct wall_interval *ret)
{
	struct wall_interval interval = {0};
	struct error *err = interval_take(&s->interval, &s->estimate, goroutine_set_records(s->set),
					  goroutine_set_count(s->set), &interval.ns);
	const struct cpu_bucket *samples;
	size_t count;

	if (!err && interval.ns && s->cpu.buckets) {
		count = s->cpu.buckets(s->cpu.arg, &samples);
		err = interval_take_samples(&s->interval, samples, count);
		if (!err)
			err = buckets_join(&s->interval.seen, s->set, s->interval.fresh,
					   s->interval.fresh_count, s->cpu.period_ns,
					   s->options.system);
	}
	if (err)
		return err;
	interval.buckets = s->interval.seen.items;
	interval.count = s->interval.seen.count;
	*ret = interval;
	return NULL;
}

void wall_sampler_set_rate(struct wall_sampler *s, double hz)
{
	s->options.hz = hz;
	s->period = (uint64_t)((double)(clock_now() - s->started) * hz / 1e9) + 1;
}

void wall_sampler_set_budget(struct wall_sampler *s, double budget)
{
	s->options.budget = budget;
	budget_set_share(&s->budget, budget);
}

bool wall_sampler_sampled(const struct wall_sampler *s, uint32_t bucket, struct wall_bucket *ret)
{
	const struct cpu_bucket *samples;

	if (!s->cpu.buckets || bucket >= s->cpu.buckets(s->cpu.arg, &samples))
		return false;
	*ret = (struct wall_bucket){
		.stack = samples[bucket].stack,
		.labels = samples[bucket].labels,
		.status = samples[bucket].in_syscall ? G_SYSCALL : G_RUNNING,
	};
	return true;
}

size_t wall_sampler_shares(const struct wall_sampler *s, uint32_t bucket, struct wall_share *ret,
			   size_t max)
{
	const struct cpu_bucket *samples;
	size_t count;

	if (!s->cpu.buckets)
		return 0;
	count = s->cpu.buckets(s->cpu.arg, &samples);
	return buckets_shares(&s->estimate.buckets.items[bucket], s->set, samples, count,
			      s->cpu.period_ns, ret, max);
}

bool wall_sampler_counts(const struct goroutine_record *r)
{
	return r->owner_bucket != BUCKET_NONE;
}

uint64_t wall_sampler_since(const struct wall_sampler *s, const struct goroutine_record *r)
{
	const uint64_t *since = r->owner_since ? NULL : map_find(&s->waits, r->goid);

	return since && *since < s->started ? *since : s->started + r->owner_since;
}

uint64_t wall_sampler_creator(const struct wall_sampler *s, uint32_t creator)
{
	return creator && creator <= s->creator_count ? s->creators[creator] : 0;
}

const struct wall_result *wall_sampler_result(const struct wall_sampler *s)
{
	return &s->result;
}

struct goroutine_set *wall_sampler_set(struct wall_sampler *s)
{
	return s->set;
}

size_t wall_sampler_buckets(const struct wall_sampler *s, const struct wall_bucket **ret)
{
	*ret = s->estimate.buckets.items;
	return s->estimate.buckets.count;
}
