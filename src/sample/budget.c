#include "sample/budget.h"

#include <math.h>

/* The approximate cost of a first look at a goroutine, with its stack read and unwound. */
#define FIRST_LOOK_NS 800.0
/* The additional cost of the first pass: function tables come from the page cache, and nothing is
 * known. */
#define FIRST_PASS_NS 5e6
/* One-time costs are paid off over the recording's duration, or over this many seconds. */
#define LEAST_HORIZON 3.0
#define MOST_HORIZON 10.0
/* A debt of this many ticks stops sampling; a larger debt is paid off while sampling continues. */
#define DEBT_TICKS 5
/* At most the tokens of this many ticks are kept. */
#define KEPT_TICKS 20
/* CPU time that suffices for any sample; the next tick removes the rest. */
#define ENOUGH_NS 1e15

void budget_init(struct budget *b, double share, double hz, double duration)
{
	*b = (struct budget){.share = share, .rate = share, .hz = hz, .horizon = MOST_HORIZON};
	if (duration > 0)
		b->horizon = fmin(fmax(duration, LEAST_HORIZON), MOST_HORIZON);
}

bool budget_is_unlimited(const struct budget *b)
{
	return b->share <= 0;
}

/* CPU time spent in advance, in seconds, is deducted from later earnings until the horizon. At most
 * half of these is deducted: otherwise waking up would use the rest, and nothing would be
 * sampled. */
static void repay(struct budget *b, double cost)
{
	b->rate = fmax(b->rate - cost / b->horizon, b->share / 2);
}

void budget_set_share(struct budget *b, double share)
{
	b->rate *= share / b->share;
	b->share = share;
}

bool budget_borrow(struct budget *b, size_t goroutines)
{
	double cost = (FIRST_PASS_NS + goroutines * FIRST_LOOK_NS) / 1e9;

	if (cost > b->share * b->horizon / 2)
		return false;
	repay(b, cost);
	b->tokens = cost * 1e9;
	return true;
}

void budget_give_all(struct budget *b)
{
	b->tokens = ENOUGH_NS;
}

void budget_add_set_up(struct budget *b, uint64_t used_ns)
{
	repay(b, used_ns / 1e9);
	b->tokens = fmax(b->tokens, 1);
}

/* The earnings of this many ticks. */
static double earned_in(const struct budget *b, double ticks)
{
	return ticks * b->rate * 1e9 / b->hz;
}

/* Pays a part of the arrears from the earnings; returns the rest. */
static double pay_arrears(struct budget *b, double earned)
{
	bool too_much = b->arrears > b->rate * b->horizon * 1e9 / 2;
	double part = too_much ? 1 : b->tokens >= 0 ? 0.5 : 0;
	double paid = fmin(earned * part, b->arrears);

	b->arrears -= paid;
	return earned - paid;
}

void budget_earn(struct budget *b, uint64_t passed_ns)
{
	if (b->age_ns > b->horizon * 1e9)
		b->rate = b->share;
	b->age_ns += passed_ns;
	b->tokens = fmin(b->tokens + pay_arrears(b, b->rate * passed_ns), earned_in(b, KEPT_TICKS));
}

void budget_use(struct budget *b, uint64_t used_ns)
{
	b->tokens -= used_ns;
}

/* A moving average of the latest values. */
static double averaged(double before, double now)
{
	return before > 0 ? 0.8 * before + 0.2 * now : now;
}

void budget_use_for_units(struct budget *b, uint64_t used_ns, size_t units)
{
	double each = (double)used_ns / units;

	budget_use(b, used_ns);
	b->unit_ns = averaged(b->unit_ns, each);
	if (b->usual_ns > 0)
		each = fmin(each, 4 * b->usual_ns);
	b->usual_ns = averaged(b->usual_ns, each);
}

void budget_defer(struct budget *b)
{
	double least = -earned_in(b, DEBT_TICKS) - 2 * b->usual_ns;

	if (budget_is_unlimited(b) || b->tokens >= least)
		return;
	b->arrears += least - b->tokens;
	b->tokens = least;
}

double budget_units(const struct budget *b)
{
	return b->unit_ns > 0 ? b->tokens / b->unit_ns : 1;
}

size_t budget_affords(const struct budget *b, size_t left)
{
	double n = budget_units(b);

	if (budget_is_unlimited(b))
		return left;
	if (b->tokens <= 0)
		return 0;
	return n < 1 ? 1 : n < left ? (size_t)n : left;
}

bool budget_draw(const struct budget *b, double random)
{
	double most = earned_in(b, 2 * DEBT_TICKS);

	return b->tokens > 0 || random * most < most + b->tokens;
}
