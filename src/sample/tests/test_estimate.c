/*
 * Recordings of simulated goroutines on a simulated clock: how far the estimate is from the truth,
 * and whether its stated error covers the difference.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "sample/estimate.h"

#define GOROUTINES 200
#define UNIT 10
#define UNITS (GOROUTINES / UNIT)
#define STACKS 20
#define PERIOD 10000000.0
#define RUNS (UNDER_ASAN ? 100 : 200)
#define LONG_AGO (-300 * PERIOD)

struct process {
	double until; /* the time at which it moves */
	double since; /* the time up to which `truth` is complete */
	uint32_t stack;
	uint32_t moves;
};

struct model {
	const char *name;
	/* Groups of this many neighbours move together. */
	size_t together;
	/* Chooses where it goes at that time, and until when it stays; stack STACKS: it ends. */
	void (*move)(struct process *p, size_t who, double now);
};

struct budget {
	const char *name;
	bool enough; /* more than one unit is sampled, at more than one time */
	int ticks;
	double units; /* sampled in a tick */
	int last;     /* from this tick on there is no CPU time for sampling */
};

static uint64_t random_state;

static double uniform(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 11) * 0x1p-53;
}

static double exponential(double mean)
{
	return -mean * log(1 - uniform());
}

static void stay(struct process *p, size_t who, double now)
{
	p->stack = who % 3 ? who * STACKS / GOROUTINES : 0;
	p->until = INFINITY;
}

/* Each stack has its own duration of stays, from half a tick to 20 ticks. */
static void wander(struct process *p, size_t who, double now)
{
	p->stack = uniform() * uniform() * STACKS;
	p->until = now + exponential(PERIOD * (0.5 + p->stack));
}

static void some_wander(struct process *p, size_t who, double now)
{
	if (who % 10)
		stay(p, who, now);
	else
		wander(p, who, now);
}

/* Away from its usual stack one time in 50. */
static void stray(struct process *p, size_t who, double now)
{
	if (p->stack || !p->moves) {
		p->stack = 0;
		p->until = now + exponential(PERIOD * 49);
	} else {
		p->stack = 1 + uniform() * (STACKS - 1);
		p->until = now + exponential(PERIOD);
	}
}

/* In step with the ticks: 3 tenths of each period here, 7 tenths there. */
static void march(struct process *p, size_t who, double now)
{
	double tick = floor(now / PERIOD + 1e-6) * PERIOD;

	p->stack = now - tick < PERIOD * 0.29;
	p->until = p->stack ? tick + PERIOD * 0.3 : tick + PERIOD;
}

/* Starts at any time, ends after a while, and starts again as another goroutine. */
static void live(struct process *p, size_t who, double now)
{
	p->stack = p->stack == STACKS ? who % STACKS : STACKS;
	p->until = now + exponential(PERIOD * 30);
}

/* Each goroutine moves once, at its own time. */
static void leave(struct process *p, size_t who, double now)
{
	p->stack = p->moves ? 1 + who % 2 : 0;
	p->until = p->moves ? INFINITY : PERIOD * 100 * uniform();
}

static const struct model models[] = {
	{"stable", 1, stay},
	{"wandering", 1, wander},
	{"some wandering", 1, some_wander},
	{"neighbours wander together", 25, wander},
	{"all wander together", GOROUTINES, wander},
	{"rare places", 1, stray},
	{"rare places together", GOROUTINES, stray},
	{"in step with the ticks", GOROUTINES, march},
	{"born and dead", 1, live},
	{"moving on", 1, leave},
	{"moving on together", GOROUTINES, leave},
};

static const struct budget budgets[] = {
	{"all each tick", true, 100, UNITS, 100},    {"2 ticks", true, 100, UNITS / 2.0, 100},
	{"7 ticks", true, 100, UNITS / 7.0, 100},    {"19 ticks", true, 100, UNITS / 19.0, 100},
	{"3 in 4 of all", true, 15, 1, 15},          {"few", true, 5, 1, 5},
	{"5 looks at all", true, 5, UNITS, 5},       {"1 unit", false, 100, 1, 1},
	{"in debt after all", false, 100, UNITS, 1},
};

struct run {
	const struct model *model;
	struct process processes[GOROUTINES];
	struct goroutine_record records[GOROUTINES];
	struct goroutine_unit units[UNITS];
	struct estimate estimate;
	double truth[STACKS + 1]; /* ns */
	double last_tick;
	int ticks;
	int pass_tick;
};

static void advance(struct run *r, size_t leader, double now)
{
	struct process *p = &r->processes[leader];

	while (p->until <= now) {
		r->truth[p->stack] += (p->until - p->since) * r->model->together;
		p->since = p->until;
		p->moves++;
		r->model->move(p, leader, p->until);
	}
	r->truth[p->stack] += (now - p->since) * r->model->together;
	p->since = now;
}

static void look(struct run *r, size_t who, double now)
{
	size_t leader = who - who % r->model->together;
	const struct process *p = &r->processes[leader];
	struct goroutine_record *before = &r->records[who], record = *before;

	advance(r, leader, now);
	record.goid = who + 1;
	record.key = p->stack == STACKS ? G_DEAD : G_WAITING;
	record.stack = p->stack;
	record.tick = p->moves;
	assert_null(estimate_see(&r->estimate, before, &record, p->stack != STACKS));
	*before = record;
}

static void look_at_units(struct run *r, double *tokens, double now)
{
	size_t next = r->estimate.next;

	for (; *tokens >= 1 && next < UNITS; --*tokens, next++) {
		const struct goroutine_unit *u = &r->units[r->estimate.order[next]];

		for (size_t i = u->first; i < u->first + u->count; i++)
			look(r, i, now);
	}
	estimate_end_tick(&r->estimate, next);
}

static void begin(struct run *r, double began)
{
	if (r->ticks)
		estimate_end_pass(&r->estimate, began);
	assert_null(estimate_begin_pass(&r->estimate, began, UNITS, true));
	r->pass_tick = r->ticks;
}

/* As in wall.c. */
static void tick(struct run *r, double *tokens, double now)
{
	double begins = r->ticks ? (r->last_tick + now) / 2 : 0;
	size_t before;

	if (r->estimate.next == r->estimate.unit_count && *tokens >= 1)
		begin(r, begins);
	before = r->estimate.next;
	look_at_units(r, tokens, now);
	if (r->pass_tick < r->ticks && r->estimate.next == UNITS && *tokens >= 1) {
		double scanned = UNITS - before;

		begin(r, begins + scanned / (scanned + *tokens) * PERIOD);
		look_at_units(r, tokens, now);
	}
	r->last_tick = now;
	r->ticks++;
}

static void record(struct run *r, const struct budget *b)
{
	double tokens = 0.5;

	for (size_t i = 0; i < GOROUTINES; i += r->model->together)
		advance(r, i, 0);
	memset(r->truth, 0, sizeof(r->truth));
	for (int i = 0; i < b->ticks; i++) {
		double now = (i + estimate_random(&r->estimate)) * PERIOD;

		tokens = i < b->last ? tokens + b->units : 0;
		tick(r, &tokens, now);
	}
	estimate_finish(&r->estimate, b->ticks * PERIOD, r->records, r->units);
	for (size_t i = 0; i < GOROUTINES; i += r->model->together)
		advance(r, i, b->ticks * PERIOD);
}

static void start(struct run *r, const struct model *m)
{
	*r = (struct run){.model = m};
	estimate_init(&r->estimate, random_state * 0x9e3779b97f4a7c15 | 1);
	for (size_t i = 0; i < UNITS; i++)
		r->units[i] = (struct goroutine_unit){.first = i * UNIT, .count = UNIT};
	for (size_t i = 0; i < GOROUTINES; i++) {
		r->processes[i].stack = uniform() < 0.5 ? STACKS : 0;
		m->move(&r->processes[i], i, LONG_AGO);
		r->processes[i].since = LONG_AGO;
	}
}

struct outcome {
	double estimated[STACKS];
	double truth[STACKS];
	double error;
};

static void report(const struct run *r, struct outcome *o)
{
	const struct buckets *b = &r->estimate.buckets;
	double total = 0, true_total = 0;

	*o = (struct outcome){.error = precision_error(&r->estimate.precision, b)};
	for (size_t i = 1; i < b->count; i++)
		total += b->items[i].ns;
	for (size_t i = 0; i < STACKS; i++)
		true_total += r->truth[i];
	for (size_t i = 1; total && i < b->count; i++)
		o->estimated[b->items[i].stack] += b->items[i].ns / total;
	for (size_t i = 0; i < STACKS; i++)
		o->truth[i] = r->truth[i] / true_total;
}

static struct outcome outcomes[RUNS];

static void run_all(const struct model *m, const struct budget *b)
{
	static struct run r;

	random_state = 0x1234567890abcdef;
	for (size_t i = 0; i < RUNS; i++) {
		start(&r, m);
		record(&r, b);
		report(&r, &outcomes[i]);
		estimate_release(&r.estimate);
	}
}

static double worst_difference(const struct outcome *o)
{
	double worst = 0;

	for (size_t i = 0; i < STACKS; i++)
		worst = fmax(worst, fabs(o->estimated[i] - o->truth[i]));
	return worst;
}

static double coverage(void)
{
	double covered = 0;

	for (size_t i = 0; i < RUNS; i++)
		covered += worst_difference(&outcomes[i]) <= outcomes[i].error + 1e-9;
	return covered / RUNS;
}

/* The mean difference of a stack's share, in standard errors of that mean. */
static double bias(size_t stack)
{
	double sum = 0, squares = 0, mean;

	for (size_t i = 0; i < RUNS; i++) {
		double d = outcomes[i].estimated[stack] - outcomes[i].truth[stack];

		sum += d;
		squares += d * d;
	}
	mean = sum / RUNS;
	return mean / (sqrt((squares / RUNS - mean * mean) / (RUNS - 1)) + 1e-9);
}

static double mean_error(void)
{
	double sum = 0;

	for (size_t i = 0; i < RUNS; i++)
		sum += outcomes[i].error;
	return sum / RUNS;
}

/* Calls f for every model with every budget. */
static void for_all(void (*f)(const struct model *m, const struct budget *b))
{
	for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(budgets); k++) {
			run_all(&models[i], &budgets[k]);
			f(&models[i], &budgets[k]);
		}
	}
}

/* There are 1,760 means. One that is off by 5 standard errors is improbable. */
static void expect_right(const struct model *m, const struct budget *b)
{
	if (coverage() < 0.95)
		fail_msg("%s, %s: right in %.1f %% of the runs", m->name, b->name,
			 100 * coverage());
	for (size_t i = 0; b->enough && i < STACKS; i++)
		if (fabs(bias(i)) > 5)
			fail_msg("%s, %s: the mean share of place %zu is %.1f standard errors off",
				 m->name, b->name, i, bias(i));
}

static void shares_are_right_on_average_and_within_the_stated_error(void **state)
{
	for_all(expect_right);
}

static void unchanging_goroutines_have_no_error(void **state)
{
	for (size_t i = 0; i < 4; i++) {
		run_all(&models[0], &budgets[i]);
		assert_true(worst_difference(&outcomes[0]) < 1e-9);
		assert_true(mean_error() < 0.05);
	}
}

static void the_error_says_something(void **state)
{
	run_all(&models[1], &budgets[0]);
	assert_true(mean_error() < 0.05);
	run_all(&models[2], &budgets[2]);
	assert_true(mean_error() < 0.05);
}

static void single_pass_gives_no_estimate(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
		run_all(&models[i], &budgets[ARRAY_SIZE(budgets) - 1]);
		assert_true(mean_error() == 1);
		run_all(&models[i], &budgets[ARRAY_SIZE(budgets) - 2]);
		assert_true(mean_error() == 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_right_on_average_and_within_the_stated_error),
		cmocka_unit_test(unchanging_goroutines_have_no_error),
		cmocka_unit_test(the_error_says_something),
		cmocka_unit_test(single_pass_gives_no_estimate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
