/* A sampler with a budget, simulated: its clock and its costs are numbers. */
#include <math.h>

#include "base/unit_test.h"
#include "sample/budget.h"

#define HZ 100.0
#define TICK_NS 10000000u
#define UNITS 1000

struct simulation {
	struct budget budget;
	uint64_t random;
	double used_ns;
	size_t ticks;
	size_t looks; /* ticks that sampled */
	size_t blind; /* ticks since the last that sampled */
	size_t most_blind;
	double wake_ns; /* what a tick costs besides its units */
};

static double random_number(struct simulation *sim)
{
	sim->random = sim->random * 6364136223846793005u + 1442695040888963407u;
	return (sim->random >> 11) * 0x1p-53;
}

static struct simulation begin(double share, double duration)
{
	struct simulation sim = {.random = 1, .wake_ns = 5000};

	budget_init(&sim.budget, share, HZ, duration);
	return sim;
}

/* One tick, as sample/wall.c makes them; each unit costs between none and twice this. */
static void tick(struct simulation *sim, double unit_ns)
{
	struct budget *b = &sim->budget;
	size_t n, left = UNITS;
	double cost;

	sim->ticks++;
	budget_earn(b, TICK_NS);
	sim->blind++;
	if (!budget_draw(b, random_number(sim)))
		return;
	while (left && (n = budget_affords(b, left))) {
		cost = unit_ns * n * 2 * random_number(sim);
		budget_use_for_units(b, cost, n);
		sim->used_ns += cost;
		left -= n;
		sim->blind = 0;
	}
	sim->looks += !sim->blind;
	budget_use(b, sim->wake_ns);
	sim->used_ns += sim->wake_ns;
	budget_defer(b);
	if (sim->blind > sim->most_blind)
		sim->most_blind = sim->blind;
}

static double share_used(const struct simulation *sim)
{
	return sim->used_ns / ((double)sim->ticks * TICK_NS);
}

/* From a tenth of what the budget affords to ten thousand times as much. */
static void what_is_used_is_the_budget_whatever_units_cost(void **state)
{
	for (double unit_ns = 1000; unit_ns <= 1e7; unit_ns *= 10) {
		struct simulation sim = begin(0.01, 0);

		for (int i = 0; i < 60000; i++)
			tick(&sim, unit_ns);
		assert_true(share_used(&sim) <= 0.0102);
		assert_true(share_used(&sim) >= 0.0095);
		assert_true(sim.looks > 0);
	}
}

static void what_fits_into_the_budget_is_looked_at_in_each_tick(void **state)
{
	struct simulation sim = begin(0.01, 0);

	for (int i = 0; i < 10000; i++)
		tick(&sim, 20);
	assert_int_equal(sim.looks, sim.ticks);
	assert_true(share_used(&sim) < 0.005);
}

static void a_first_pass_that_was_borrowed_is_paid_off_by_the_horizon(void **state)
{
	struct simulation sim = begin(0.01, 10);
	double borrowed;

	assert_true(budget_borrow(&sim.budget, 50000));
	borrowed = sim.budget.tokens;
	assert_true(borrowed > 50000 * 500.0 && borrowed < 0.01 * 10e9 / 2);
	budget_use_for_units(&sim.budget, borrowed, UNITS);
	sim.used_ns = borrowed;
	for (int i = 0; i < 1000; i++)
		tick(&sim, 10000);
	assert_true(share_used(&sim) <= 0.0102);
	assert_true(sim.looks > 100);
	/* Now the whole rate is earned again. */
	tick(&sim, 10000);
	tick(&sim, 10000);
	assert_true(sim.budget.rate == 0.01);
}

static void a_first_pass_of_more_than_half_the_budget_is_not_borrowed(void **state)
{
	struct simulation sim = begin(0.01, 10);

	assert_false(budget_borrow(&sim.budget, 100000));
	assert_true(sim.budget.tokens == 0 && sim.budget.rate == 0.01);
}

static void what_is_owed_takes_half_of_what_is_earned_at_most(void **state)
{
	struct simulation sim = begin(0.01, 10);

	budget_add_set_up(&sim.budget, 50000000000);
	assert_true(sim.budget.rate == 0.005);
	assert_true(budget_affords(&sim.budget, UNITS) == 1);
}

/* After a sample that cost the earnings of 400 ticks. */
static void after_one_costly_look_others_go_on_and_it_is_paid(void **state)
{
	struct simulation sim = begin(0.01, 0);
	const double costly = 400 * 0.01 * TICK_NS;

	for (int i = 0; i < 2000; i++)
		tick(&sim, 20);
	budget_use_for_units(&sim.budget, costly, 1);
	budget_defer(&sim.budget);
	assert_true(sim.budget.arrears > costly * 0.9);
	sim.used_ns += costly;
	sim.most_blind = 0;
	for (int i = 0; i < 2000; i++)
		tick(&sim, 20);
	assert_true(sim.most_blind < 40);
	assert_true(sim.budget.arrears == 0);
	assert_true(share_used(&sim) <= 0.0102);
}

static void in_debt_looks_are_rarer_the_larger_it_is(void **state)
{
	struct simulation sim = begin(0.01, 0);
	double most = 10 * 0.01 * TICK_NS;

	for (int tenths = 0; tenths <= 12; tenths++) {
		int count = 0;

		sim.budget.tokens = -most * tenths / 10;
		for (int i = 0; i < 10000; i++)
			count += budget_draw(&sim.budget, random_number(&sim));
		assert_true(fabs(count - fmax(0, 10000 - 1000.0 * tenths)) < 200);
	}
}

static void tokens_are_kept_for_20_ticks(void **state)
{
	struct simulation sim = begin(0.01, 0);

	budget_earn(&sim.budget, 3600000000000u);
	assert_true(fabs(sim.budget.tokens - 20 * 0.01 * TICK_NS) < 1);
}

static void without_a_limit_all_is_afforded(void **state)
{
	struct simulation sim = begin(0, 0);

	budget_use_for_units(&sim.budget, 1000000000, 1);
	budget_defer(&sim.budget);
	assert_true(budget_is_unlimited(&sim.budget));
	assert_int_equal(budget_affords(&sim.budget, UNITS), UNITS);
	assert_true(sim.budget.arrears == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_used_is_the_budget_whatever_units_cost),
		cmocka_unit_test(what_fits_into_the_budget_is_looked_at_in_each_tick),
		cmocka_unit_test(a_first_pass_that_was_borrowed_is_paid_off_by_the_horizon),
		cmocka_unit_test(a_first_pass_of_more_than_half_the_budget_is_not_borrowed),
		cmocka_unit_test(what_is_owed_takes_half_of_what_is_earned_at_most),
		cmocka_unit_test(after_one_costly_look_others_go_on_and_it_is_paid),
		cmocka_unit_test(in_debt_looks_are_rarer_the_larger_it_is),
		cmocka_unit_test(tokens_are_kept_for_20_ticks),
		cmocka_unit_test(without_a_limit_all_is_afforded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
