/*
 * The CPU time that a sampler may use: how many units it may scan, and when it may begin.
 *
 * It is a token bucket. Time earns tokens, which are ns of CPU, at the budget's rate; scans spend
 * them. Three costs are known only afterwards. One-time costs of a recording are paid off over its
 * duration. The first pass reads every stack, and may borrow half of what the recording will earn.
 * A scan that costs many times the usual is an arrear, which is paid off while scans continue.
 *
 * It has no clock and no target: the caller reports time and cost. So a simulation can test it.
 */
#ifndef SAMPLE_BUDGET_H
#define SAMPLE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget {
	double share; /* of one core; 0: no limit */
	double hz;
	double horizon; /* seconds over which debts are paid off */

	double tokens;   /* ns of CPU that may be used now */
	double arrears;  /* spent tokens that are paid off slowly: see budget_defer() */
	double rate;     /* ns of CPU that a ns of time adds */
	double unit_ns;  /* the recent cost of a unit */
	double usual_ns; /* the same without outliers */
	uint64_t age_ns; /* time that has earned tokens */
};

/* `duration` in seconds, 0: unknown. */
void budget_init(struct budget *b, double share, double hz, double duration);
bool budget_is_unlimited(const struct budget *b);
/* From now on it earns at another rate, also above 0; for a limited one. */
void budget_set_share(struct budget *b, double share);

/*
 * Asks to do the first pass over all goroutines at once. True if it takes at most half of the whole
 * recording's budget, which is then deducted. With more, the recording would know one moment and
 * nothing else.
 */
bool budget_borrow(struct budget *b, size_t goroutines);
/* Does the first pass at once, whatever it costs; later ticks pay for it. */
void budget_give_all(struct budget *b);
/* Adds the cost of finding all goroutines, which is paid off evenly. Otherwise a million goroutines
 * at 1 % of a core would not be sampled for seconds. The first scan happens however small the
 * budget is. */
void budget_add_set_up(struct budget *b, uint64_t used_ns);

/* Time passed: adds the CPU time that may be used, up to that of 20 ticks. */
void budget_earn(struct budget *b, uint64_t passed_ns);
void budget_use(struct budget *b, uint64_t used_ns);
/* Charges the cost of scanning this many units. */
void budget_use_for_units(struct budget *b, uint64_t used_ns, size_t units);

/*
 * The cost of a tick is predictable to within a unit. Now and then a tick costs many times that: it
 * meets new code, or a virtual machine loses its CPU. As an ordinary debt, it would stop sampling
 * for seconds, and the last state would count for all that time. So the part beyond the debt of a
 * few ticks is paid with half of the earnings, and sampling continues. All of it is paid, and at
 * most half of the recording's budget is deferred.
 */
void budget_defer(struct budget *b);

/* How many of the remaining units may be scanned now, by their recent cost. */
size_t budget_affords(const struct budget *b, size_t left);
/* The remaining tokens, in units. */
double budget_units(const struct budget *b);
/*
 * Whether this tick samples; `random` is from 0 to 1. A sample costs more when many goroutines
 * move. If gospect simply paused after a costly sample, moving goroutines would be sampled just
 * before long gaps, and the gap would count for them. So ticks sample at random, more rarely when
 * the debt is larger. Then the cost of a single sample hardly matters.
 */
bool budget_draw(const struct budget *b, double random);

#endif
