/* Joins memory samples and on-CPU samples into one wall clock: see buckets_join(). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sample/join.h"

static int compare_samples(const void *a, const void *b)
{
	const struct cpu_bucket *x = a, *y = b;

	if (x->in_syscall != y->in_syscall)
		return x->in_syscall - y->in_syscall;
	if (x->start_pc != y->start_pc)
		return x->start_pc < y->start_pc ? -1 : 1;
	return (x->own > y->own) - (x->own < y->own);
}

/* The on-CPU samples of one start function and one set of own labels, in the sorted order. */
struct group {
	size_t first;
	size_t end;
	uint64_t draws;
	uint64_t ns; /* of CPU time and of waits */
};

static uint64_t draws_of(const struct cpu_bucket *sample)
{
	return sample->count + sample->waits;
}

static uint64_t ns_of(const struct cpu_bucket *sample, uint64_t period_ns)
{
	return sample->count * period_ns + sample->waited_ns;
}

static struct group group_at(const struct cpu_bucket *samples, size_t count, size_t first,
			     uint64_t period_ns)
{
	struct group g = {first, first, 0, 0};

	for (; g.end < count && !compare_samples(&samples[first], &samples[g.end]); g.end++) {
		g.draws += draws_of(&samples[g.end]);
		g.ns += ns_of(&samples[g.end], period_ns);
	}
	return g;
}

static struct group find_group(const struct cpu_bucket *samples, size_t count, uint64_t start_pc,
			       uint32_t own, uint64_t period_ns)
{
	struct cpu_bucket key = {.start_pc = start_pc, .own = own};
	size_t lo = 0, hi = count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (compare_samples(&samples[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < count && !compare_samples(&samples[lo], &key))
		return group_at(samples, count, lo, period_ns);
	return (struct group){0};
}

static bool add(struct buckets *b, const struct cpu_bucket *sample, uint32_t creator,
		const struct gain *gain)
{
	struct goroutine_record r = {
		.key = sample->in_syscall ? G_SYSCALL : G_RUNNING,
		.stack = sample->stack,
		.labels = sample->labels,
		.owner_creator = creator,
	};
	uint32_t place = buckets_of(b, &r);
	struct wall_bucket *to;

	if (place == BUCKET_NONE)
		return false;
	to = &b->items[place];
	to->ns += gain->ns;
	to->count += gain->count;
	to->cpu_ns += gain->cpu_ns;
	to->variance += gain->variance;
	to->grain = fmax(to->grain, gain->grain);
	return true;
}

/* The variance of a share `part` of a time, estimated by this many samples. */
static double share_variance(const struct wall_bucket *of, double part, double samples)
{
	return part * part * of->variance + (double)of->ns * of->ns * part * (1 - part) / samples;
}

/*
 * Divides the time of bucket `from` between the stacks of its on-CPU samples, by their CPU time and
 * their waits for a CPU.
 */
static bool share(struct buckets *b, size_t from, const struct cpu_bucket *samples,
		  const struct group *g, uint64_t period_ns)
{
	struct wall_bucket all = b->items[from];
	uint64_t ns_left = all.ns, count_left = all.count;

	for (size_t i = g->first; i < g->end; i++) {
		double part = (double)ns_of(&samples[i], period_ns) / g->ns;
		bool last = i + 1 == g->end;
		struct gain gain = {
			.ns = last ? ns_left : (uint64_t)(all.ns * part),
			.count = last ? count_left : (uint64_t)(all.count * part),
			.cpu_ns = samples[i].count * period_ns,
			.variance = share_variance(&all, part, g->draws),
			.grain = fmax(all.grain, (double)all.ns / g->draws),
		};

		if (!add(b, &samples[i], all.creator, &gain))
			return false;
		ns_left -= gain.ns;
		count_left -= gain.count;
	}
	all.ns = all.count = all.cpu_ns = all.variance = 0;
	b->items[from] = all;
	return true;
}

static bool is_running(const struct wall_bucket *b, const struct stacks *stacks,
		       uint64_t *ret_start)
{
	struct stack stack = stacks_get(stacks, b->stack);

	if (b->status != G_RUNNING || !b->count || !stack.count || stack.pcs[0] != STACK_PC_RUNNING)
		return false;
	*ret_start = stack.count > 1 ? stack_pc_address(stack.pcs[1]) : 0;
	return true;
}

static uint32_t own_labels(struct goroutine_set *set, uint32_t labels)
{
	return label_sets_own(goroutine_set_labels(set), labels);
}

static bool share_seen(struct buckets *b, struct goroutine_set *set,
		       const struct cpu_bucket *samples, size_t count, uint64_t period_ns,
		       bool *used)
{
	const struct stacks *stacks = goroutine_set_stacks(set);
	size_t old = b->count;
	uint64_t start;

	for (size_t i = 1; i < old; i++) {
		struct group g;

		if (!is_running(&b->items[i], stacks, &start))
			continue;
		g = find_group(samples, count, start, own_labels(set, b->items[i].labels),
			       period_ns);
		if (!g.draws)
			continue;
		if (!share(b, i, samples, &g, period_ns))
			return false;
		used[g.first] = true;
	}
	return true;
}

/* The gain of a goroutine that was never seen running. */
static struct gain gain_of_cpu(const struct cpu_bucket *sample, uint64_t period_ns)
{
	uint64_t ns = sample->count * period_ns;

	return (struct gain){ns, sample->count, ns, (double)ns * period_ns, period_ns};
}

static bool add_sample(struct buckets *b, struct goroutine_set *set,
		       const struct cpu_bucket *sample, uint64_t period_ns, bool system)
{
	struct gain gain;

	if (!sample->count)
		return true;
	if (!sample->is_marked && !system &&
	    goroutine_set_system_flag(set, sample->start_pc, sample->stack))
		return true;
	if (sample->in_syscall)
		gain = buckets_take_syscall(b, set, sample, period_ns);
	else
		gain = gain_of_cpu(sample, period_ns);
	return add(b, sample, gain.creator, &gain);
}

struct error *buckets_join(struct buckets *b, struct goroutine_set *set,
			   const struct cpu_bucket *samples, size_t count, uint64_t period_ns,
			   bool system)
{
	_cleanup_free_ struct cpu_bucket *sorted = calloc(count + 1, sizeof(*sorted));
	_cleanup_free_ bool *used = calloc(count + 1, sizeof(*used));

	if (!sorted || !used)
		return &error_no_memory;
	if (count)
		memcpy(sorted, samples, count * sizeof(*sorted));
	for (size_t i = 0; i < count; i++)
		sorted[i].own = own_labels(set, sorted[i].labels);
	qsort(sorted, count, sizeof(*sorted), compare_samples);
	if (!share_seen(b, set, sorted, count, period_ns, used))
		return &error_no_memory;
	for (size_t i = 0; i < count;) {
		struct group g = group_at(sorted, count, i, period_ns);

		for (size_t k = g.first; !used[g.first] && k < g.end; k++) {
			if (!add_sample(b, set, &sorted[k], period_ns, system))
				return &error_no_memory;
		}
		i = g.end;
	}
	return NULL;
}

static void insert(struct wall_share *to, size_t *count, size_t max, struct wall_share share)
{
	size_t at = *count;

	if (at == max && to[at - 1].ns >= share.ns)
		return;
	at -= at == max;
	*count = at + 1;
	for (; at && to[at - 1].ns < share.ns; at--)
		to[at] = to[at - 1];
	to[at] = share;
}

size_t buckets_shares(const struct wall_bucket *b, struct goroutine_set *set,
		      const struct cpu_bucket *samples, size_t count, uint64_t period_ns,
		      struct wall_share *ret, size_t max)
{
	struct stack stack = stacks_get(goroutine_set_stacks(set), b->stack);
	uint32_t own = own_labels(set, b->labels);
	uint64_t start;
	size_t n = 0;

	if (b->status != G_RUNNING || stack.count < 2 || stack.pcs[0] != STACK_PC_RUNNING)
		return 0;
	start = stack_pc_address(stack.pcs[1]);
	for (size_t i = 0; i < count; i++) {
		const struct cpu_bucket *s = &samples[i];
		uint64_t ns = ns_of(s, period_ns);

		if (!s->in_syscall && s->start_pc == start && own_labels(set, s->labels) == own &&
		    ns)
			insert(ret, &n, max, (struct wall_share){s->stack, s->labels, ns});
	}
	return n;
}
