#include "sample/oncpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "sample/perf_events.h"

/* Nearly all stacks of Go programs are shorter; the kernel's chain knows the rest. */
#define STACK_BYTES 8192
#define MAX_THREADS 100000
/* A program that makes threads all the time is not waited for any longer. */
#define MAX_OPENINGS 10

struct oncpu_sampler {
	struct target *t;
	const struct image *img;
	const struct golayout *lay;
	struct goroutine_set *set;
	struct perf_events *events;
	uint64_t goid; /* only this one; 0: all */
	struct oncpu_stats stats;
	struct oncpu_bucket *buckets;
	size_t count;
	size_t capacity;
	struct map index;   /* hash of a bucket -> its place + 1 */
	struct map threads; /* tid -> its m; 0: none was found */
	struct map kinds;   /* stack -> STACK_* bits + 1 */
	bool threads_fresh; /* read since the last drain began */
};

static struct error *list_threads(struct target *t, pid_t **ret, size_t *ret_count)
{
	_cleanup_free_ struct target_thread *threads = NULL;
	struct error *err = target_threads(t, &threads, ret_count);
	pid_t *tids;

	if (err)
		return err;
	tids = calloc(*ret_count + 1, sizeof(*tids));
	if (!tids)
		return &error_no_memory;
	for (size_t i = 0; i < *ret_count; i++)
		tids[i] = threads[i].id;
	*ret = tids;
	return NULL;
}

/* Whether all of `some` are among `all`. */
static bool has_all(const pid_t *all, size_t all_count, const pid_t *some, size_t some_count)
{
	for (size_t i = 0; i < some_count; i++) {
		size_t k = 0;

		while (k < all_count && all[k] != some[i])
			k++;
		if (k == all_count)
			return false;
	}
	return true;
}

/*
 * A thread inherits the events of the one that makes it. One that was born while we opened them, of
 * a thread that had none yet, would never be seen: then all are opened anew.
 */
static struct error *open_events(struct oncpu_sampler *s, const struct perf_options *options)
{
	for (int i = 0; i < MAX_OPENINGS; i++) {
		_cleanup_free_ pid_t *before = NULL, *after = NULL;
		size_t count_before, count_after;
		struct error *err = list_threads(s->t, &before, &count_before);

		perf_events_close(take_ptr(s->events));
		if (!err)
			err = perf_events_open(target_pid(s->t), before, count_before, options,
					       &s->events);
		if (!err)
			err = list_threads(s->t, &after, &count_after);
		if (err || has_all(before, count_before, after, count_after))
			return err;
	}
	return NULL;
}

struct error *oncpu_sampler_open(struct target *t, const struct image *img,
				 const struct golayout *lay, struct goroutine_set *set, double hz,
				 uint64_t goid, struct oncpu_sampler **ret)
{
	_cleanup_oncpu_sampler_ struct oncpu_sampler *s = calloc(1, sizeof(*s));
	struct perf_options options = {
		.hz = hz,
		.machine = img->machine,
		.stack_size = STACK_BYTES,
	};
	struct error *err;

	if (!s)
		return &error_no_memory;
	s->t = t;
	s->img = img;
	s->lay = lay;
	s->set = set;
	s->goid = goid;
	err = open_events(s, &options);
	if (err)
		return err;
	s->stats.period_ns = perf_events_period(s->events);
	s->stats.sees_kernel = perf_events_see_kernel(s->events);
	*ret = take_ptr(s);
	return NULL;
}

void oncpu_sampler_close(struct oncpu_sampler *s)
{
	if (!s)
		return;
	perf_events_close(s->events);
	free(s->buckets);
	map_release(&s->index);
	map_release(&s->kinds);
	map_release(&s->threads);
	free(s);
}

/* What the target calls this thread -> what we call it. */
static void name_threads(struct oncpu_sampler *s, struct map *names)
{
	_cleanup_free_ struct target_thread *threads = NULL;
	size_t count;

	if (error_dropped(target_threads(s->t, &threads, &count)))
		return;
	for (size_t i = 0; i < count; i++) {
		uint64_t *name = map_at(names, threads[i].inner);

		if (name)
			*name = threads[i].id;
	}
}

/* Which m each thread is: the list of all m's, newest first. */
static void read_threads(struct oncpu_sampler *s)
{
	const struct golayout_numbers *n = &s->lay->n;
	_cleanup_map_ struct map names = {0};
	const uint64_t *name;
	uint64_t m, procid, *place;

	s->threads_fresh = true;
	name_threads(s, &names);
	if (error_dropped(target_read_u64(s->t, s->lay->v.allm, &m)))
		return;
	for (size_t i = 0; m && i < MAX_THREADS; i++) {
		if (error_dropped(target_read_u64(s->t, m + n->m_procid, &procid)))
			return;
		name = map_find(&names, procid);
		place = name ? map_at(&s->threads, *name) : NULL;
		if (place)
			*place = m;
		if (error_dropped(target_read_u64(s->t, m + n->m_alllink, &m)))
			return;
	}
}

/* The goroutine that the thread works for now; 0 when it has none. */
static uint64_t goroutine_of_thread(struct oncpu_sampler *s, pid_t tid)
{
	const uint64_t *m = map_find(&s->threads, tid);
	uint64_t g;

	if (!m && !s->threads_fresh) {
		read_threads(s);
		m = map_find(&s->threads, tid);
	}
	if (!m || error_dropped(target_read_u64(s->t, *m + s->lay->n.m_curg, &g)))
		return 0;
	return g;
}

static bool in_go(const struct oncpu_sampler *s, uint64_t pc)
{
	return pc >= s->img->functions.text && pc < s->img->functions.etext;
}

/* In Go code the g register tells, except on a system stack, where it is g0 or gsignal. */
static uint64_t goroutine_of(struct oncpu_sampler *s, const struct perf_sample *sample)
{
	size_t place;

	if (goroutine_set_find(s->set, sample->g, &place))
		return sample->g;
	return goroutine_of_thread(s, sample->tid);
}

static uint64_t bucket_hash(const struct oncpu_bucket *b)
{
	return hash_u64(hash_u64(b->start_pc ^ (uint64_t)b->labels << 32) + b->stack) >> 1;
}

static struct error *count(struct oncpu_sampler *s, const struct oncpu_bucket *b)
{
	uint64_t hash = bucket_hash(b), *place;

	for (;; hash++) {
		const struct oncpu_bucket *have;

		place = map_at(&s->index, hash);
		if (!place)
			return &error_no_memory;
		if (!*place)
			break;
		have = &s->buckets[*place - 1];
		if (have->start_pc == b->start_pc && have->labels == b->labels &&
		    have->stack == b->stack && have->in_syscall == b->in_syscall)
			break;
	}
	if (!*place) {
		if (!array_reserve(&s->buckets, &s->capacity, s->count + 1))
			return &error_no_memory;
		s->buckets[s->count++] = *b;
		*place = s->count;
	}
	s->buckets[*place - 1].count++;
	return NULL;
}

/* Not in Go code: where that is, then the Go callers that the chain knows. */
static struct error *outside_stack(struct oncpu_sampler *s, const struct perf_sample *sample,
				   uint64_t start_pc, uint32_t *ret)
{
	uint64_t pcs[130] = {STACK_PC_OUTSIDE};
	size_t n = 1;

	for (size_t i = 1; i < sample->chain_count && n < 128; i++)
		if (in_go(s, sample->chain[i]))
			pcs[n++] = sample->chain[i];
	if (n == 1 && start_pc) {
		pcs[n++] = STACK_PC_TRUNCATED;
		pcs[n++] = start_pc | STACK_PC_EXACT;
	}
	return stacks_intern(goroutine_set_stacks(s->set), pcs, n, ret);
}

static struct error *unwind(struct oncpu_sampler *s, const struct perf_sample *sample,
			    uint64_t start_pc, uint32_t *ret)
{
	struct stack_memory memory = {
		.pc = sample->pc,
		.sp = sample->sp,
		.lr = sample->lr,
		.start_pc = start_pc,
		.exact_pc = true,
		.bytes = sample->stack,
		.size = sample->stack_size,
		.chain = sample->chain,
		.chain_count = sample->chain_count,
	};

	if (!in_go(s, sample->pc))
		return outside_stack(s, sample, start_pc, ret);
	return stacks_unwind(goroutine_set_stacks(s->set), &memory, ret);
}

/* What a stack says of its thread. */
enum { STACK_SCHEDULES = 1, STACK_IN_SYSCALL = 2 };

static uint64_t kind_of_function(const char *name)
{
	/* The thread has left its goroutine: mcall switched to the system stack for good. */
	static const char *const scheduler[] = {"runtime.mcall", "runtime.mstart",
						"runtime.mstart0", "runtime.rt0_go"};
	/* Around these the goroutine is in state syscall. Raw system calls are not. */
	static const char *const syscalls[] = {"syscall.Syscall", "syscall.Syscall6",
					       "runtime.cgocall", "runtime.notetsleepg"};

	for (size_t i = 0; i < ARRAY_SIZE(scheduler); i++)
		if (!strcmp(name, scheduler[i]))
			return STACK_SCHEDULES;
	for (size_t i = 0; i < ARRAY_SIZE(syscalls); i++)
		if (!strcmp(name, syscalls[i]))
			return STACK_IN_SYSCALL;
	return 0;
}

static uint64_t kind_of(struct oncpu_sampler *s, uint32_t id)
{
	struct stack stack = stacks_get(goroutine_set_stacks(s->set), id);
	uint64_t *kind = map_at(&s->kinds, id), bits = 0;
	struct go_func f;

	if (kind && *kind)
		return *kind - 1;
	for (uint32_t i = 0; i < stack.count; i++)
		if (!stack_pc_is_pseudo(stack.pcs[i]) &&
		    pclntab_find(&s->img->functions, stack_pc_lookup(stack.pcs[i]), &f))
			bits |= kind_of_function(f.name);
	if (kind)
		*kind = bits + 1;
	return bits;
}

static void count_result(struct oncpu_sampler *s, uint32_t stack)
{
	if (stack == STACK_NONE)
		s->stats.unknown++;
	else if (stacks_get(goroutine_set_stacks(s->set), stack).truncated)
		s->stats.truncated++;
	else
		s->stats.unwound++;
}

/* Whether the thread works for no goroutine. On a system stack only the stack itself tells: by the
 * time the sample is read, the thread may work for another one. */
static struct error *is_of_nobody(struct oncpu_sampler *s, const struct perf_sample *sample,
				  bool *ret)
{
	uint32_t stack;
	struct error *err = unwind(s, sample, 0, &stack);

	if (!err)
		*ret = kind_of(s, stack) & STACK_SCHEDULES;
	return err;
}

static struct error *take(void *arg, const struct perf_sample *sample)
{
	struct oncpu_sampler *s = arg;
	struct goroutine_identity who;
	struct oncpu_bucket b;
	struct error *err;
	bool nobody = false;
	size_t place;

	s->stats.samples++;
	if (!goroutine_set_find(s->set, sample->g, &place)) {
		err = is_of_nobody(s, sample, &nobody);
		if (err)
			return err;
	}
	if (nobody || !goroutine_set_identify(s->set, goroutine_of(s, sample), &who)) {
		s->stats.scheduler++;
		return NULL;
	}
	if (s->goid && s->goid != who.goid)
		return NULL;
	b = (struct oncpu_bucket){.start_pc = who.start_pc, .labels = who.labels};
	err = unwind(s, sample, who.start_pc, &b.stack);
	if (err)
		return err;
	count_result(s, b.stack);
	b.in_syscall = kind_of(s, b.stack) & STACK_IN_SYSCALL;
	return b.stack == STACK_NONE ? NULL : count(s, &b);
}

struct error *oncpu_sampler_drain(struct oncpu_sampler *s)
{
	s->threads_fresh = false;
	return perf_events_drain(s->events, take, s);
}

size_t oncpu_sampler_buckets(const struct oncpu_sampler *s, const struct oncpu_bucket **ret)
{
	*ret = s->buckets;
	return s->count;
}

struct oncpu_stats oncpu_sampler_stats(const struct oncpu_sampler *s)
{
	struct oncpu_stats stats = s->stats;

	stats.lost = perf_events_lost(s->events);
	return stats;
}
