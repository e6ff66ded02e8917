#include "collect/ticks.h"

#include <string.h>

#include "agent/cpu.h"
#include "base/clock.h"

#define TRIES 8
/* Centuries: later times are invalid, and exceed int64_t. */
#define MOST_NS (1ull << 62)

uint64_t ticks_now(void)
{
	return cpu_clock();
}

/* Of several tries, the one with the least time between its two readings. */
struct tick_pair ticks_measure(void)
{
	struct tick_pair best = {0};
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = ticks_now(), ns = clock_now(), took = ticks_now() - before;

		if (took < least) {
			best = (struct tick_pair){.tick = before + took / 2, .ns = ns};
			least = took;
		}
	}
	return best;
}

/* Once: a division takes as long as all the rest for an event. */
static void find_slope(struct tick_pair *p)
{
	p[0].slope = (double)(p[1].ns - p[0].ns) / (double)(p[1].tick - p[0].tick);
}

void ticks_add(struct ticks *t, const struct tick_pair *pair)
{
	const struct tick_pair *before = t->count ? &t->pairs[t->count - 1] : NULL;

	if (before && (pair->tick <= before->tick || pair->ns <= before->ns))
		return;
	if (t->count == TICKS_PAIRS) {
		memmove(t->pairs, t->pairs + 1, (TICKS_PAIRS - 1) * sizeof(t->pairs[0]));
		t->count--;
	}
	t->pairs[t->count++] = *pair;
	if (t->count > 1)
		find_slope(&t->pairs[t->count - 2]);
}

/* The first of the two pairs around this time. With a single pair, that one, which has no slope. */
static const struct tick_pair *pair_before(const struct ticks *t, uint64_t tick)
{
	size_t i = t->count < 2 ? 0 : t->count - 2;

	while (i && t->pairs[i].tick > tick)
		i--;
	return &t->pairs[i];
}

uint64_t ticks_to_any_ns(const struct ticks *t, uint64_t tick)
{
	const struct tick_pair *p = pair_before(t, tick);
	double since = (double)(int64_t)(tick - p->tick) * p->slope, ns = (double)p->ns + since;

	if (ns < 0)
		return 0;
	return ns < (double)MOST_NS ? p->ns + (int64_t)since : MOST_NS;
}

uint64_t ticks_of_ns(const struct ticks *t, uint64_t ns)
{
	double ticks = t->count < 2 ? (double)ns : (double)ns / pair_before(t, UINT64_MAX)->slope;

	return ticks < (double)MOST_NS ? (uint64_t)ticks : MOST_NS;
}
