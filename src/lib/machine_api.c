/* gospect_machine_read(): from the bytes of a trace to the structures of machine.h. */
#include <gospect/machine.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "gotrace/perfetto_reader.h"
#include "lib/cancel_api.h"
#include "lib/error_api.h"
#include "lib/given.h"
#include "lib/options.h"
#include "lib/remark.h"
#include "lib/trace_spans.h"
#include "requests/machine.h"

struct gospect_machine {
	struct machine_report inner;
	struct arena arena; /* of the info */
	struct map stacks;  /* a stack's number -> what was made of it */
	struct gospect_machine_info info;
	struct gospect_machine_stop *stops; /* in order of time */
	bool failed;                        /* no memory */
};

void gospect_machine_destroy(struct gospect_machine *m)
{
	if (!m)
		return;
	machine_release(&m->inner);
	arena_release(&m->arena);
	map_release(&m->stacks);
	free(m);
}

static void cleanup_machine(struct gospect_machine **m)
{
	gospect_machine_destroy(*m);
}
#define _cleanup_machine_ _cleanup_(cleanup_machine)

/* ---- the structures of machine.h ---- */

static const char *text_of(const struct gospect_machine *m, uint32_t text)
{
	return intern_get(&m->inner.tables.texts, text);
}

static const struct gospect_stack *stack_of(struct gospect_machine *m, uint32_t stack)
{
	uint64_t *place = map_at(&m->stacks, stack);

	if (place && !*place)
		*place = (uintptr_t)span_stack_of(&m->arena, &m->inner.tables, stack);
	m->failed |= !place || !*place;
	return place ? (const struct gospect_stack *)(uintptr_t)*place : NULL;
}

/* NULL: none. */
static const struct gospect_machine_goroutine *goroutine_of(struct gospect_machine *m, uint64_t g,
							    uint32_t start, uint32_t stack)
{
	struct gospect_machine_goroutine *to = g ? given_take(&m->arena, sizeof(*to)) : NULL;

	m->failed |= g && !to;
	if (to)
		*to = (struct gospect_machine_goroutine){g, text_of(m, start), stack_of(m, stack)};
	return to;
}

/* Pointers to `count` items of this size, one after the other; NULL: no memory. */
static void **list(struct gospect_machine *m, size_t count, size_t size)
{
	void **pointers = given_take(&m->arena, (count + 1) * sizeof(*pointers));
	char *items = given_take(&m->arena, (count + 1) * size);

	for (size_t i = 0; pointers && items && i < count; i++)
		pointers[i] = items + i * size;
	m->failed |= !pointers || !items;
	return items ? pointers : NULL;
}

static int by_duration(const void *a, const void *b)
{
	const struct gospect_machine_stop *x = *(struct gospect_machine_stop *const *)a;
	const struct gospect_machine_stop *y = *(struct gospect_machine_stop *const *)b;

	if (x->duration_ns != y->duration_ns)
		return x->duration_ns < y->duration_ns ? 1 : -1;
	return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

static void give_stops(struct gospect_machine *m)
{
	const struct machine_report *from = &m->inner;
	struct gospect_machine_stop **to =
		(struct gospect_machine_stop **)list(m, from->stop_count,
						     sizeof(struct gospect_machine_stop));

	for (size_t i = 0; to && i < from->stop_count; i++) {
		const struct machine_stop *s = &from->stops[i];

		*to[i] = (struct gospect_machine_stop){
			.begin_ns = s->begin,
			.duration_ns = s->end - s->begin,
			.stopping_ns = s->stopping_ns,
			.reason = text_of(m, s->reason),
			.by = goroutine_of(m, s->g, s->start, s->stack),
			.last = goroutine_of(m, s->last_g, s->last_start, s->last_stack),
			.last_p = s->last_p,
			.given_up = s->given_up,
			.is_incomplete = !s->is_stopped,
		};
		m->info.stops_ns += s->end - s->begin;
	}
	m->stops = to ? to[0] : NULL;
	if (to)
		qsort(to, from->stop_count, sizeof(*to), by_duration);
	m->info.stop_count = from->stop_count;
	m->info.stops = (const struct gospect_machine_stop *const *)to;
}

static void give_waits(struct gospect_machine *m)
{
	const struct machine_report *from = &m->inner;
	const struct histogram *h = &from->latency;
	struct gospect_machine_wait **to =
		(struct gospect_machine_wait **)list(m, from->longest_count,
						     sizeof(struct gospect_machine_wait));

	for (size_t i = 0; to && i < from->longest_count; i++) {
		const struct machine_wait *w = &from->longest[i];

		*to[i] = (struct gospect_machine_wait){
			.begin_ns = w->begin,
			.duration_ns = w->end - w->begin,
			.stopped_ns = w->stopped_ns,
			.why = text_of(m, w->why),
			.goroutine = goroutine_of(m, w->g, w->start, w->stack),
			.holder = goroutine_of(m, w->holder, w->holder_start, w->holder_stack),
			.holder_ns = w->holder_ns,
			.p = w->p,
		};
	}
	m->info.wait_count = h->count;
	m->info.waits_ns = h->total;
	m->info.wait_p50_ns = histogram_percentile(h, 50);
	m->info.wait_p90_ns = histogram_percentile(h, 90);
	m->info.wait_p99_ns = histogram_percentile(h, 99);
	m->info.wait_max_ns = h->max;
	m->info.longest_count = from->longest_count;
	m->info.longest = (const struct gospect_machine_wait *const *)to;
}

static void give_buckets(struct gospect_machine *m)
{
	struct gospect_machine_bucket **to =
		(struct gospect_machine_bucket **)list(m, HISTOGRAM_OCTAVES,
						       sizeof(struct gospect_machine_bucket));
	size_t count = 0;

	for (unsigned int i = 0; to && i + 1 < HISTOGRAM_OCTAVES; i++) {
		uint64_t n = histogram_octave(&m->inner.latency, i);

		if (n)
			*to[count++] = (struct gospect_machine_bucket){2ull << i, n};
	}
	m->info.bucket_count = count;
	m->info.buckets = (const struct gospect_machine_bucket *const *)to;
}

static bool begins_with_one(const char *text, const char *const *prefixes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strncmp(text, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

/* The innermost function that belongs to one system call, such as syscall.read. Otherwise the
 * innermost one. */
static const char *syscall_name(const struct gospect_stack *stack)
{
	static const char *const packages[] = {"syscall.",
					       "golang.org/x/sys/unix.",
					       "internal/syscall/unix.",
					       "runtime.",
					       "runtime/",
					       "internal/runtime/"};
	static const char *const means[] = {"Syscall",    "RawSyscall",      "syscall",
					    "rawSyscall", "rawVforkSyscall", "runtime_"};
	const char *name = "";

	for (size_t i = 0; stack && i < stack->count; i++) {
		const char *function = stack->frames[i]->function;
		const char *own = strrchr(function, '.');

		if (!own || !begins_with_one(function, packages, ARRAY_SIZE(packages)))
			return name;
		name = function;
		if (!begins_with_one(own + 1, means, ARRAY_SIZE(means)))
			return name;
	}
	return name;
}

static const struct gospect_machine_calls *const *
give_calls(struct gospect_machine *m, const struct machine_sums *from, bool are_syscalls)
{
	struct gospect_machine_calls **to =
		(struct gospect_machine_calls **)list(m, from->count,
						      sizeof(struct gospect_machine_calls));

	for (size_t i = 0; to && i < from->count; i++) {
		const struct machine_sum *s = &from->items[i];
		const struct gospect_stack *stack = stack_of(m, s->stack);

		*to[i] = (struct gospect_machine_calls){
			.stack = stack,
			.name = are_syscalls ? syscall_name(stack) : "",
			.count = s->count,
			.total_ns = s->ns,
			.longest_ns = s->max_ns,
			.lost = s->lost,
		};
	}
	return (const struct gospect_machine_calls *const *)to;
}

static void give_phases(const struct gospect_machine *m, const struct machine_cycle *from,
			struct gospect_machine_cycle *to)
{
	const struct gospect_machine_stop *first, *last;

	if (m->stops && from->first_stop)
		to->sweep_termination = &m->stops[from->first_stop - 1];
	if (m->stops && from->last_stop)
		to->mark_termination = &m->stops[from->last_stop - 1];
	first = to->sweep_termination;
	last = to->mark_termination;
	if (first && last && last->begin_ns > first->begin_ns + first->duration_ns)
		to->mark_ns = last->begin_ns - first->begin_ns - first->duration_ns;
}

static void give_collector(struct gospect_machine *m)
{
	const struct machine_gc *gc = &m->inner.gc;
	struct gospect_machine_info *info = &m->info;
	struct gospect_machine_cycle **to =
		(struct gospect_machine_cycle **)list(m, gc->count,
						      sizeof(struct gospect_machine_cycle));

	for (size_t i = 0; to && i < gc->count; i++) {
		const struct machine_cycle *c = &gc->cycles[i];

		*to[i] = (struct gospect_machine_cycle){.begin_ns = c->begin,
							.duration_ns = c->end - c->begin,
							.is_cut = c->is_cut};
		give_phases(m, c, to[i]);
		info->cycles_ns += c->end - c->begin;
	}
	info->cycle_count = gc->count;
	info->cycles = (const struct gospect_machine_cycle *const *)to;
	info->dedicated_ns = gc->worker_ns[WORKER_DEDICATED];
	info->fractional_ns = gc->worker_ns[WORKER_FRACTIONAL];
	info->idle_worker_ns = gc->worker_ns[WORKER_IDLE];
	info->sweep_ns = gc->sweep_ns;
	info->swept_bytes = gc->swept_bytes;
	info->reclaimed_bytes = gc->reclaimed_bytes;
	info->heap_max_bytes = gc->heap_max;
	info->heap_goal_bytes = gc->heap_goal;
	info->assist_count = gc->assists.total_count;
	info->assists_ns = gc->assists.total_ns;
	info->assist_stack_count = gc->assists.count;
	info->assists = give_calls(m, &gc->assists, false);
}

static void give_processors(struct gospect_machine *m)
{
	const struct processors *from = &m->inner.processors;
	struct gospect_machine_processor **to =
		(struct gospect_machine_processor **)list(m, from->count,
							  sizeof(struct gospect_machine_processor));

	for (size_t i = 0; to && i < from->count; i++) {
		const uint64_t *ns = from->items[i]->ns;

		*to[i] = (struct gospect_machine_processor){
			.id = from->items[i]->id,
			.running_ns = ns[PROCESSOR_RUNNING],
			.syscall_ns = ns[PROCESSOR_IN_SYSCALL],
			.scheduling_ns = ns[PROCESSOR_SCHEDULING],
			.idle_ns = ns[PROCESSOR_IDLE],
		};
	}
	m->info.processor_count = from->count;
	m->info.processors = (const struct gospect_machine_processor *const *)to;
}

static uint64_t growth(const struct gospect_machine *m, enum trace_counter which)
{
	const struct machine_counter *c = &m->inner.counters[which];

	return c->last > c->first ? c->last - c->first : 0;
}

static void give_cpu_users(struct gospect_machine *m)
{
	const struct running_split *from = &m->inner.cpu;
	struct gospect_running_function *to =
		given_take(&m->arena, (from->count + 1) * sizeof(*to));

	m->failed |= !to;
	for (size_t i = 0; to && i < from->count; i++)
		to[i] = (struct gospect_running_function){text_of(m, from->items[i].function),
							  from->items[i].samples, from->items[i].ns,
							  from->items[i].error_ns};
	m->info.sample_count = from->samples;
	m->info.cpu_user_count = to ? from->count : 0;
	m->info.cpu_users = to;
}

static void give_counters(struct gospect_machine *m)
{
	const struct machine_counter *cpu = &m->inner.counters[TRACE_COUNTER_CPU];

	m->info.kernel_ns = cpu->end - cpu->begin;
	m->info.cpu_ns = growth(m, TRACE_COUNTER_CPU);
	m->info.machine_ns = growth(m, TRACE_COUNTER_MACHINE);
	m->info.steal_ns = growth(m, TRACE_COUNTER_STEAL);
	m->info.periods = growth(m, TRACE_COUNTER_PERIODS);
	m->info.throttled_periods = growth(m, TRACE_COUNTER_THROTTLED_PERIODS);
	m->info.throttled_ns = growth(m, TRACE_COUNTER_THROTTLED);
}

static struct error *must_check give(struct gospect_machine *m)
{
	m->info.duration_ns = m->inner.duration;
	m->info.gomaxprocs = m->inner.gomaxprocs;
	give_processors(m);
	give_counters(m);
	give_cpu_users(m);
	give_stops(m);
	give_waits(m);
	give_buckets(m);
	give_collector(m);
	m->info.syscall_count = m->inner.syscalls.total_count;
	m->info.syscalls_ns = m->inner.syscalls.total_ns;
	m->info.syscall_stack_count = m->inner.syscalls.count;
	m->info.syscalls = give_calls(m, &m->inner.syscalls, true);
	return m->failed ? &error_no_memory : NULL;
}

struct gospect_error *gospect_machine_read(const void *bytes, size_t size,
					   const struct gospect_machine_options *given,
					   struct gospect_machine **ret)
{
	_cleanup_machine_ struct gospect_machine *m = calloc(1, sizeof(*m));
	_cleanup_trace_reader_ struct trace_reader *reader = NULL;
	struct gospect_machine_options o = {0};
	struct error *err = options_take(given, &o, sizeof(o), "gospect_machine_options");

	if (!m)
		return error_out(&error_no_memory);
	if (!err && perfetto_is(bytes, size))
		err = error_format(
			ERROR_FAILED,
			"what the machine did is not read from a Perfetto trace; record a .trace file for it");
	if (!err)
		err = trace_reader_create(bytes, size, &reader);
	if (!err)
		err = machine_read(reader, cancel_flag(o.cancel), &m->inner);
	if (!err)
		err = give(m);
	if (err)
		return error_out(err);
	if (trace_reader_is_truncated(reader))
		remark(&(struct remark){o.remark, o.arg},
		       "%s is truncated within a generation: the table covers the time before",
		       o.name ? o.name : "the trace");
	*ret = take_ptr(m);
	return NULL;
}

const struct gospect_machine_info *gospect_machine_info(const struct gospect_machine *m)
{
	return &m->info;
}
