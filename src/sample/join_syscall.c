/*
 * A goroutine may run on a CPU in a system call or in C, while memory shows it in state syscall.
 * The part of that time which on-CPU samples stand for moves from memory's bucket to the bucket
 * with the sample's stack.
 */
#include <math.h>

#include "labels/label_sets.h"
#include "sample/join.h"

/*
 * Whether `memory` and `sample` are in the same call. The stack in memory begins where the system
 * call was entered (g.syscallpc), the sample's stack further inside. Both have the same callers. Of
 * a truncated stack, the start function is known.
 */
static bool is_caller(const struct stack *memory, const struct stack *sample, uint64_t start_pc)
{
	if (memory->truncated)
		return memory->pcs[memory->count - 1] == (start_pc | STACK_PC_EXACT);
	if (!memory->count || memory->count > sample->count)
		return false;
	for (uint32_t i = 1; i < memory->count; i++)
		if (memory->pcs[memory->count - i] != sample->pcs[sample->count - i])
			return false;
	return true;
}

/* The better one has all the labels of the sample, or else more time left. */
static bool is_better(const struct wall_bucket *b, const struct wall_bucket *found,
		      const struct cpu_bucket *sample)
{
	bool same = b->labels == sample->labels;

	if (!found || same != (found->labels == sample->labels))
		return b->ns && (!found || same);
	return b->ns > found->ns;
}

/* The best of the matching buckets. */
static struct wall_bucket *find_caller(struct buckets *b, struct goroutine_set *set,
				       const struct cpu_bucket *sample)
{
	const struct label_sets *labels = goroutine_set_labels(set);
	const struct stacks *stacks = goroutine_set_stacks(set);
	struct stack inner = stacks_get(stacks, sample->stack);
	struct wall_bucket *found = NULL;

	for (size_t i = 1; i < b->count; i++) {
		struct wall_bucket *bucket = &b->items[i];
		struct stack stack = stacks_get(stacks, bucket->stack);

		if (bucket->status == G_SYSCALL &&
		    label_sets_own(labels, bucket->labels) == sample->own &&
		    bucket->stack != sample->stack && is_better(bucket, found, sample) &&
		    is_caller(&stack, &inner, sample->start_pc))
			found = bucket;
	}
	return found;
}

struct gain buckets_take_syscall(struct buckets *b, struct goroutine_set *set,
				 const struct cpu_bucket *sample, uint64_t period_ns)
{
	struct gain gain = {.cpu_ns = sample->count * period_ns};
	struct wall_bucket *from = find_caller(b, set, sample);
	double part;

	if (!from)
		return gain;
	gain.ns = gain.cpu_ns < from->ns ? gain.cpu_ns : from->ns;
	part = (double)gain.ns / from->ns;
	gain.count = from->count * part;
	gain.variance = (double)gain.ns * period_ns;
	gain.grain = fmax(from->grain, period_ns);
	gain.creator = from->creator;
	from->idle_ns -= from->idle_ns * part;
	from->idle_count -= from->idle_count * part;
	from->ns -= gain.ns;
	from->count -= gain.count;
	return gain;
}
