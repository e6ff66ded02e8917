/* The process and its machine at the beginning and at the end: CPU time, quota, steal, memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/door.h"
#include "base/map.h"
#include "base/memory_room.h"
#include "collect/counters.h"
#include "golayout/view.h"
#include "lib/why.h"
#include "memory/bucket_stacks.h"
#include "profile/awaiting.h"
#include "target/proc_status.h"

/* Threads whose states are looked at. */
#define MOST_THREADS 256
/* No program has such a large heap: what was read is not the heap's size. */
#define MOST_HEAP (1ull << 46)
#define MOST_WORDS 1032 /* of a bucket's stack */
/* The number of the cycle is stored from bit 1 on. */
#define FIRST_WITH_ATOMIC_CYCLE 19

/* ---- the kernel's files ---- */

static void read_machine_time(struct why_look *look)
{
	_cleanup_fclose_ FILE *f = door_fopen("/proc/stat");
	double fields[8], ticks = sysconf(_SC_CLK_TCK);

	if (!f ||
	    fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &fields[0], &fields[1], &fields[2],
		   &fields[3], &fields[4], &fields[5], &fields[6], &fields[7]) != 8)
		return;
	for (size_t i = 0; i < 8; i++)
		look->machine_s += fields[i] / ticks;
	look->steal_s = fields[7] / ticks;
}

/* Version 2 has throttled_usec, version 1 throttled_time in nanoseconds. */
static void read_throttling(const struct quota *q, struct why_look *look)
{
	_cleanup_fclose_ FILE *f = q->counts[0] ? door_fopen(q->counts) : NULL;
	char name[64];
	double value;

	while (f && fscanf(f, "%63s %lf", name, &value) == 2) {
		if (!strcmp(name, "nr_periods"))
			look->periods = value;
		else if (!strcmp(name, "nr_throttled"))
			look->throttled = value;
		else if (!strcmp(name, "throttled_usec"))
			look->throttled_s = value / 1e6;
		else if (!strcmp(name, "throttled_time"))
			look->throttled_s = value / 1e9;
	}
}

static void read_cycle(const struct why_machine *m, struct why_look *look)
{
	const struct gospect_target *t = m->target;
	uint32_t cycle;

	if (!m->variables.cycle ||
	    error_dropped(target_read_u32(t->target, m->variables.cycle, &cycle)))
		return;
	look->cycle = t->layout->minor >= FIRST_WITH_ATOMIC_CYCLE ? cycle >> 1 : cycle;
	look->has_cycle = true;
}

static void look(const struct why_machine *m, struct why_look *ret)
{
	const atomic_int *cancel = m->target->cancel;
	const struct buckets_wanted wanted = {.kind = BUCKET_MEMORY,
					      .cancel = atomic_load(cancel) ? NULL : cancel};
	pid_t pid = target_pid(m->target->target);
	long rss = target_status_number(pid, "VmRSS");

	ret->at = clock_now();
	ret->cpu_s = process_cpu_seconds(pid);
	ret->rss = rss > 0 ? (uint64_t)rss << 10 : 0;
	read_machine_time(ret);
	read_throttling(&m->quota, ret);
	read_cycle(m, ret);
	/* Without a profile the rest is as good. */
	if (m->rate && error_dropped(runtime_buckets_read(m->target->target, m->target->layout,
							  &m->variables, &wanted, &ret->memory)))
		ret->memory = (struct runtime_buckets){0};
}

/* ---- while it is recorded ---- */

static void find_variables(struct why_machine *m)
{
	struct gospect_target *t = m->target;
	struct counters counters;
	uint64_t rate = 0;

	if (error_dropped(heap_variables_find(t->image, t->layout, &m->variables)))
		m->variables = (struct heap_variables){0};
	if (m->variables.mem_rate &&
	    !error_dropped(target_read_u64(t->target, m->variables.mem_rate, &rate)))
		m->rate = rate;
	counters_init(&counters, t->image, t->layout);
	m->controller = counters.controller;
}

void why_machine_begin(struct why_machine *m, struct gospect_target *t)
{
	*m = (struct why_machine){.target = t};
	quota_find(target_pid(t->target), &m->quota);
	find_variables(m);
	look(m, &m->first);
}

void why_machine_look(struct why_machine *m)
{
	pid_t pid = target_pid(m->target->target), id;
	DIR *folder = task_folder_open(pid);
	size_t left = MOST_THREADS;

	if (!folder)
		return;
	while (left-- && (id = task_folder_next(folder)))
		m->sleepers += thread_state(pid, id) == 'D';
	m->looks++;
	closedir(folder);
}

/* ---- at the end ---- */

static void give_cpu(const struct why_machine *m, struct why_numbers *n)
{
	const struct why_look *a = &m->first, *b = &m->last;
	double seconds = (b->at - a->at) / 1e9, machine = b->machine_s - a->machine_s;
	struct why_cpu *c = &n->cpu;
	uint32_t procs = 0;

	if (!error_dropped(
		    target_read_u32(m->target->target, m->target->layout->v.gomaxprocs, &procs)))
		c->procs = procs;
	if (seconds <= 0)
		return;
	if (a->cpu_s >= 0 && b->cpu_s >= a->cpu_s)
		c->cores = (b->cpu_s - a->cpu_s) / seconds;
	if (machine > 0)
		c->steal = (b->steal_s - a->steal_s) / machine;
	if (a->has_cycle && b->has_cycle && b->cycle >= a->cycle)
		c->gc_rate = (b->cycle - a->cycle) / seconds;
	if (!m->quota.period_ns)
		return;
	c->quota = (double)m->quota.runtime_ns / m->quota.period_ns;
	c->periods = b->periods - a->periods;
	c->throttled = b->throttled - a->throttled;
	c->throttled_s = b->throttled_s - a->throttled_s;
}

static void give_heap(const struct why_machine *m, struct why_numbers *n)
{
	const struct golayout_numbers *numbers = &m->target->layout->n;
	uint64_t live_at = m->controller ? gc_at_heap_live(numbers, m->controller) : 0;
	uint64_t limit_at = m->controller ? gc_at_memory_limit(numbers, m->controller) : 0;
	uint64_t live = 0, limit = 0;

	if (live_at && !error_dropped(target_read_u64(m->target->target, live_at, &live)) &&
	    live < MOST_HEAP)
		n->memory.heap_live = live;
	if (n->memory.heap_live && limit_at &&
	    !error_dropped(target_read_u64(m->target->target, limit_at, &limit)) &&
	    limit < MOST_HEAP)
		n->memory.heap_limit = limit;
}

static void give_memory(const struct why_machine *m, struct why_numbers *n)
{
	char groups[64];
	struct memory_group group;

	n->memory.rss[0] = m->first.rss;
	n->memory.rss[1] = m->last.rss;
	give_heap(m, n);
	snprintf(groups, sizeof(groups), "/proc/%d/cgroup", target_pid(m->target->target));
	if (!memory_group_in(groups, "/sys/fs/cgroup", &group))
		return;
	n->memory.group_limit = group.limit;
	n->memory.group_used = group.used;
}

/* ---- which function's objects in use grew ---- */

struct growth {
	const char *function; /* it belongs to the function table */
	double bytes;
};

struct growths {
	struct map index; /* hash of the name -> index + 1 */
	struct growth *items;
	size_t count;
	size_t capacity;
};

static double in_use(const struct why_machine *m, const struct runtime_bucket *b)
{
	int64_t objects, bytes;

	bucket_unsample(b->allocs - b->frees, b->alloc_bytes - b->free_bytes, m->rate, &objects,
			&bytes);
	return bytes;
}

/* The innermost function of the program in this stack; "" where there is none. */
static const char *function_of(const struct why_machine *m, const struct runtime_buckets *b,
			       const struct runtime_bucket *bucket)
{
	const struct pclntab *functions = &m->target->image->functions;
	const struct code code = {.functions = functions};
	const char *names[WHY_MOST_FRAMES];
	uint64_t words[MOST_WORDS];
	size_t depth = bucket->depth < MOST_WORDS ? bucket->depth : MOST_WORDS, count;

	count = bucket_stack_words(functions, b->pcs + bucket->first, depth, true,
				   m->target->layout->minor, words);
	count = why_names(&code, (struct stack){.pcs = words, .count = count}, names);
	for (size_t i = 0; i < count; i++)
		if (!is_plumbing(names[i]))
			return names[i];
	return count ? names[0] : "";
}

static bool add_growth(struct growths *g, const char *function, double bytes)
{
	uint64_t *at = map_at(&g->index, hash_bytes(function, strlen(function)));

	if (!at)
		return false;
	if (!*at) {
		if (!array_reserve(&g->items, &g->capacity, g->count + 1))
			return false;
		g->items[g->count++] = (struct growth){.function = function};
		*at = g->count;
	}
	g->items[*at - 1].bytes += bytes;
	return true;
}

static bool compare(const struct why_machine *m, struct growths *g)
{
	const struct runtime_buckets *before = &m->first.memory, *after = &m->last.memory;
	_cleanup_map_ struct map index = {0};

	for (size_t i = 0; i < before->count; i++) {
		uint64_t *at = map_at(&index, before->items[i].address);

		if (!at)
			return false;
		*at = i + 1;
	}
	for (size_t i = 0; i < after->count; i++) {
		const uint64_t *at = map_find(&index, after->items[i].address);
		double by =
			in_use(m, &after->items[i]) - (at ? in_use(m, &before->items[*at - 1]) : 0);

		if (by != 0 && !add_growth(g, function_of(m, after, &after->items[i]), by))
			return false;
	}
	return true;
}

static struct error *must_check give_growth(const struct why_machine *m, struct why_numbers *n)
{
	struct growths g = {0};
	double total = 0, most = 0;
	bool done = !m->first.memory.count || compare(m, &g);

	for (size_t i = 0; i < g.count; i++) {
		total += g.items[i].bytes > 0 ? g.items[i].bytes : 0;
		if (g.items[i].bytes <= most)
			continue;
		most = g.items[i].bytes;
		n->memory.grown = why_keep(n, g.items[i].function);
	}
	n->memory.grown_part = total > 0 ? most / total : 0;
	map_release(&g.index);
	free(g.items);
	return done ? NULL : &error_no_memory;
}

struct error *why_machine_end(struct why_machine *m, struct why_numbers *n)
{
	pid_t pid = target_pid(m->target->target);

	look(m, &m->last);
	n->state = target_state(pid);
	n->tracer = thread_tracer(pid);
	n->sleeping = m->looks ? m->sleepers / m->looks : -1;
	give_cpu(m, n);
	give_memory(m, n);
	return give_growth(m, n);
}

void why_machine_release(struct why_machine *m)
{
	runtime_buckets_release(&m->first.memory);
	runtime_buckets_release(&m->last.memory);
}
