/*
 * The CPU time that a sampler may use: how many units it may look at, and when it may begin.
 *
 * It is a token bucket. Time earns tokens, which are ns of CPU, at the budget's rate; looks take
 * them. Three costs are not known before they are paid. One-time costs of a recording are paid off
 * over its duration. The first pass reads every stack, and may borrow half of what the recording
 * will earn. A look that costs many times the usual is an arrear, and is paid beside other looks.
 *
 * It has no clock and no target: the caller says what passed and what was used. So a simulation
 * tests it.
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
	double arrears;  /* that were used and are paid off slowly, see budget_defer() */
	double rate;     /* ns of CPU that a ns of time adds */
	double unit_ns;  /* the recent cost of a unit */
	double usual_ns; /* the same without outliers */
	uint64_t age_ns; /* of time that has earned tokens */
};

/* `duration` in seconds, 0: unknown. */
void budget_init(struct budget *b, double share, double hz, double duration);
bool budget_is_unlimited(const struct budget *b);

/*
 * The first pass over so many goroutines is to be done at once. True when it may use half of what
 * the whole recording may, at most; then the rest has so much less. Were it more, there would be
 * looks at one moment alone, and nothing known of all others.
 */
bool budget_borrow(struct budget *b, size_t goroutines);
/* The first pass is done at once, whatever it costs; later ticks pay for it. */
void budget_give_all(struct budget *b);
/* The cost of finding all goroutines is paid off evenly: with a million of them, and 1 % of a core,
 * nothing would be looked at for seconds. And there is a first look, however small the budget. */
void budget_add_set_up(struct budget *b, uint64_t used_ns);

/* Time passed: adds the CPU time that may be used, up to that of 20 ticks. */
void budget_earn(struct budget *b, uint64_t passed_ns);
void budget_use(struct budget *b, uint64_t used_ns);
/* So many units were looked at, which took that. */
void budget_use_for_units(struct budget *b, uint64_t used_ns, size_t units);

/*
 * The cost of a tick is known beforehand, within a unit. Now and then a tick costs many times that,
 * which no plan could avoid: the first one that meets new code, or a virtual machine without its
 * CPU. As an ordinary debt, it would stop all looks for seconds, and the last state would stand for
 * all that time. So the part beyond the debt of some ticks is paid with half of the earnings, and
 * looks continue. All of it is paid, and at most half of the recording's budget is deferred.
 */
void budget_defer(struct budget *b);

/* How many of the remaining units may be looked at now, by their recent cost. */
size_t budget_affords(const struct budget *b, size_t left);
/* The remaining tokens, in units. */
double budget_units(const struct budget *b);
/*
 * Whether there is a look, by a random number from 0 to 1. A sample costs more when many goroutines
 * move. If gospect simply paused after a costly sample, moving goroutines would be sampled just
 * before long gaps, and the gap would count for them. So samples are made at random, the rarer the
 * larger the debt: the cost of a single one changes next to nothing.
 */
bool budget_draw(const struct budget *b, double random);

#endif
