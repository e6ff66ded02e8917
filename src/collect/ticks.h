/*
 * From the CPU's clock, which the agent reads, to CLOCK_MONOTONIC: by pairs of both that are
 * measured from time to time; in between it is a straight line.
 */
#ifndef COLLECT_TICKS_H
#define COLLECT_TICKS_H

#include <stddef.h>
#include <stdint.h>

#define TICKS_PAIRS 16

struct tick_pair {
	uint64_t tick;
	uint64_t ns;
	double slope; /* ns for a tick, up to the next pair, once that is added */
};

struct ticks {
	struct tick_pair pairs[TICKS_PAIRS]; /* the last ones, in order */
	size_t count;
};

/* The CPU's clock now. */
uint64_t ticks_now(void);
struct tick_pair ticks_measure(void);
/* One more pair; the first two are to be some milliseconds apart. */
void ticks_add(struct ticks *t, const struct tick_pair *pair);
/* Before the first pair and after the last the line goes on, up to 2^62. While there is one pair,
 * whatever the tick, its time; without any, 0. */
uint64_t ticks_to_any_ns(const struct ticks *t, uint64_t tick);
/* Nearly all are in the last piece of the line, where less has to be looked at. */
static inline uint64_t ticks_to_ns(const struct ticks *t, uint64_t tick)
{
	const struct tick_pair *last = &t->pairs[t->count < 2 ? 0 : t->count - 2];
	uint64_t since = tick - last->tick;

	if (t->count < 2 || since >= 1ull << 40)
		return ticks_to_any_ns(t, tick);
	return last->ns + (int64_t)((double)(int64_t)since * last->slope);
}
/* So many ns, in ticks; while there are fewer than two pairs, as if a tick took 1 ns. */
uint64_t ticks_of_ns(const struct ticks *t, uint64_t ns);

#endif
