/* From two sources one wall clock: see buckets_join(). */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sample/buckets.h"

static int compare_samples(const void *a, const void *b)
{
	const struct oncpu_bucket *x = a, *y = b;

	if (x->in_syscall != y->in_syscall)
		return x->in_syscall - y->in_syscall;
	if (x->start_pc != y->start_pc)
		return x->start_pc < y->start_pc ? -1 : 1;
	return (x->labels > y->labels) - (x->labels < y->labels);
}

/* The samples of one start function and one set of labels, in the sorted order. */
struct group {
	size_t first;
	size_t end;
	uint64_t count;
};

static struct group group_at(const struct oncpu_bucket *samples, size_t count, size_t first)
{
	struct group g = {first, first, 0};

	while (g.end < count && !compare_samples(&samples[first], &samples[g.end]))
		g.count += samples[g.end++].count;
	return g;
}

static struct group find_group(const struct oncpu_bucket *samples, size_t count, uint64_t start_pc,
			       uint32_t labels)
{
	struct oncpu_bucket key = {.start_pc = start_pc, .labels = labels};
	size_t lo = 0, hi = count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (compare_samples(&samples[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < count && !compare_samples(&samples[lo], &key))
		return group_at(samples, count, lo);
	return (struct group){0};
}

static bool add(struct buckets *b, const struct oncpu_bucket *sample, uint64_t ns, uint64_t count,
		uint64_t cpu_ns)
{
	struct goroutine_record r = {
		.key = sample->in_syscall ? G_SYSCALL : G_RUNNING,
		.stack = sample->stack,
		.labels = sample->labels,
	};
	uint32_t place = buckets_of(b, &r);

	if (place == BUCKET_NONE)
		return false;
	b->items[place].ns += ns;
	b->items[place].count += count;
	b->items[place].cpu_ns += cpu_ns;
	return true;
}

/* The time of bucket `from` to the stacks of its samples. */
static bool share(struct buckets *b, size_t from, const struct oncpu_bucket *samples,
		  const struct group *g, uint64_t period_ns)
{
	uint64_t ns = b->items[from].ns, count = b->items[from].count, ns_left = ns,
		 count_left = count;

	for (size_t i = g->first; i < g->end; i++) {
		double part = (double)samples[i].count / g->count;
		bool last = i + 1 == g->end;
		uint64_t some_ns = last ? ns_left : (uint64_t)(ns * part);
		uint64_t some = last ? count_left : (uint64_t)(count * part);

		if (!add(b, &samples[i], some_ns, some, samples[i].count * period_ns))
			return false;
		ns_left -= some_ns;
		count_left -= some;
	}
	b->items[from].ns = b->items[from].count = b->items[from].cpu_ns = 0;
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

static bool share_seen(struct buckets *b, const struct stacks *stacks,
		       const struct oncpu_bucket *samples, size_t count, uint64_t period_ns,
		       bool *used)
{
	size_t old = b->count;
	uint64_t start;

	for (size_t i = 1; i < old; i++) {
		struct group g;

		if (!is_running(&b->items[i], stacks, &start))
			continue;
		g = find_group(samples, count, start, b->items[i].labels);
		if (!g.count)
			continue;
		if (!share(b, i, samples, &g, period_ns))
			return false;
		used[g.first] = true;
	}
	return true;
}

struct error *buckets_join(struct buckets *b, struct goroutine_set *set,
			   const struct oncpu_bucket *samples, size_t count, uint64_t period_ns,
			   bool system)
{
	_cleanup_free_ struct oncpu_bucket *sorted = calloc(count + 1, sizeof(*sorted));
	_cleanup_free_ bool *used = calloc(count + 1, sizeof(*used));

	if (!sorted || !used)
		return &error_no_memory;
	if (count)
		memcpy(sorted, samples, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_samples);
	if (!share_seen(b, goroutine_set_stacks(set), sorted, count, period_ns, used))
		return &error_no_memory;
	for (size_t i = 0; i < count;) {
		struct group g = group_at(sorted, count, i);

		for (size_t k = g.first; !used[g.first] && k < g.end; k++) {
			uint64_t cpu_ns = sorted[k].count * period_ns;
			/* The time in a system call is in another bucket, which memory filled. */
			uint64_t ns = sorted[k].in_syscall ? 0 : cpu_ns;
			uint64_t seen = sorted[k].in_syscall ? 0 : sorted[k].count;
			bool hidden =
				goroutine_set_system_flag(set, sorted[k].start_pc, sorted[k].stack);

			if ((!hidden || system) && !add(b, &sorted[k], ns, seen, cpu_ns))
				return &error_no_memory;
		}
		i = g.end;
	}
	return NULL;
}
