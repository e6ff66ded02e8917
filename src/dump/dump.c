#include "dump/dump.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "dump/connections.h"
#include "dump/on_cpu_stacks.h"
#include "dump/panic.h"

#define UNIT_BYTES (256u << 10)
/* runtime.schedt.lastpoll, behind goidgen, in Go 1.17 to 1.27. */
#define SCHED_LASTPOLL 8

struct collector {
	struct dump *dump;
	const struct dump_options *options;
};

static struct error *take(void *arg, const struct goroutine_record *before,
			  struct goroutine_record *now, const uint8_t *header)
{
	struct collector *c = arg;
	struct dump *dump = c->dump;
	struct dump_goroutine *g;
	struct goroutine_details d;

	if (c->options->stop && atomic_load(c->options->stop))
		return &error_stopped;
	if (!goroutine_is_alive(now) || (now->flags & GOROUTINE_SYSTEM && !c->options->system))
		return NULL;
	if (!array_reserve(&dump->items, &dump->capacity, dump->count + 1))
		return &error_no_memory;
	goroutine_details(dump->set, header, &d);
	g = &dump->items[dump->count++];
	*g = (struct dump_goroutine){
		.id = now->goid,
		.g = d.g,
		.parent = d.parent,
		.go_pc = d.go_pc,
		.start_pc = d.start_pc,
		.wait_since = d.wait_since,
		.m = d.m,
		.bubble = d.bubble,
		.sp = now->sp,
		.pc = now->pc,
		.key = now->key,
		.stack = now->stack,
		.labels = now->labels,
		.status = goroutine_status(now),
		.wait_reason = goroutine_wait_reason(now),
		.locked = d.locked_m != 0,
		.system = now->flags & GOROUTINE_SYSTEM,
		.unknown = now->flags & GOROUTINE_UNKNOWN,
		.on_cpu = now->flags & GOROUTINE_ON_CPU,
	};
	if (!dump->values || now->stack == STACK_NONE)
		return NULL;
	return values_take(dump->values, goroutine_set_memory(dump->set),
			   stacks_get(goroutine_set_stacks(dump->set), now->stack), &g->values);
}

static int compare_id(const void *a, const void *b)
{
	const struct dump_goroutine *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* A goroutine that ended, and whose g was reused during the pass, may occur twice. */
static void sort(struct dump *dump)
{
	size_t n = 0;

	if (!dump->count)
		return;
	qsort(dump->items, dump->count, sizeof(*dump->items), compare_id);
	for (size_t i = 0; i < dump->count; i++)
		if (!n || dump->items[i].id != dump->items[n - 1].id)
			dump->items[n++] = dump->items[i];
	dump->count = n;
}

/* Reads the word at from's address for each goroutine for which `from` is true. */
static struct error *
read_words(struct dump *dump, struct target *t,
	   uint64_t (*address_of)(const struct dump_goroutine *g, const struct golayout_numbers *n),
	   const struct golayout_numbers *n, void (*put)(struct dump_goroutine *g, uint64_t word))
{
	_cleanup_free_ struct target_range *ranges = NULL;
	_cleanup_free_ uint64_t *words = NULL;
	_cleanup_free_ bool *ok = NULL;
	size_t count = 0;
	struct error *err;

	ranges = calloc(dump->count + 1, sizeof(*ranges));
	words = calloc(dump->count + 1, sizeof(*words));
	ok = calloc(dump->count + 1, sizeof(*ok));
	if (!ranges || !words || !ok)
		return &error_no_memory;
	for (size_t i = 0; i < dump->count; i++) {
		uint64_t address = address_of(&dump->items[i], n);

		if (address)
			ranges[count++] = (struct target_range){address, 8, &words[i]};
	}
	err = target_read_each(t, ranges, count, ok);
	for (size_t i = 0; !err && i < dump->count; i++)
		put(&dump->items[i], words[i]);
	return err;
}

static uint64_t thread_address(const struct dump_goroutine *g, const struct golayout_numbers *n)
{
	return g->m && (g->status == G_RUNNING || g->status == G_SYSCALL) ? m_at_procid(n, g->m)
									  : 0;
}

static void put_thread(struct dump_goroutine *g, uint64_t word)
{
	g->thread = word <= INT32_MAX ? (int32_t)word : 0;
}

/* In a container, the target's thread ids differ from those that gospect sees. */
static struct error *name_threads(struct dump *dump, struct target *t)
{
	_cleanup_free_ struct target_thread *threads = NULL;
	_cleanup_map_ struct map names = {0};
	size_t count;
	struct error *err = target_threads(t, &threads, &count);

	if (err)
		return err;
	for (size_t i = 0; i < count; i++) {
		uint64_t *name = map_at(&names, threads[i].inner);

		if (!name)
			return &error_no_memory;
		*name = threads[i].id;
	}
	for (size_t i = 0; i < dump->count; i++) {
		const uint64_t *name = map_find(&names, dump->items[i].thread);

		dump->items[i].thread = name ? *name : 0;
	}
	return NULL;
}

/* Go 1.24's synctest groups have no number. */
static uint64_t bubble_address(const struct dump_goroutine *g, const struct golayout_numbers *n)
{
	return g->bubble ? bubble_at_id(n, g->bubble) : 0;
}

static void put_bubble(struct dump_goroutine *g, uint64_t word)
{
	g->bubble = word;
}

/*
 * In a truncated core file each goroutine is read alone, so that a missing one does not hide its
 * neighbours.
 */
static struct error *scan_all(struct goroutine_set *set, const struct target_core *core)
{
	bool alone = core && core->truncated;
	_cleanup_free_ uint32_t *order = NULL;
	const struct goroutine_unit *units;
	size_t count, scanned = 0;
	struct error *err = goroutine_set_refresh(set);

	if (!err)
		err = goroutine_set_plan(set, alone ? 1 : UNIT_BYTES, &units, &count);
	if (err)
		return err;
	order = malloc((count + 1) * sizeof(*order));
	if (!order)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = 0; !err && i < count; i += scanned)
		err = goroutine_set_scan(set, order + i, alone ? 1 : count - i, &scanned);
	return err;
}

static bool registers_of(void *arg, uint64_t thread, struct target_registers *ret)
{
	return thread <= INT32_MAX && target_registers(arg, (pid_t)thread, ret);
}

/*
 * The last time that a core file knows of: when the runtime last polled the network, or a garbage
 * collection that is later. While the runtime polls, lastpoll is 0; then the time is unknown.
 */
static uint64_t last_moment(const struct dump *dump, struct target *t, const struct golayout *lay)
{
	uint64_t last;

	if (error_dropped(target_read_u64(t, lay->v.sched + SCHED_LASTPOLL, &last)))
		return 0;
	for (size_t i = 0; last && i < dump->count; i++)
		if (dump->items[i].wait_since > last)
			last = dump->items[i].wait_since;
	return last;
}

struct error *dump_collect(struct target *t, const struct image *img, const struct golayout *lay,
			   const struct dump_options *options, struct dump **ret)
{
	_cleanup_dump_ struct dump *dump = calloc(1, sizeof(*dump));
	struct collector collector = {dump, options};
	struct goroutine_options goroutines = {
		.stack_limit = options->stack_limit,
		.changed = take,
		.arg = &collector,
		.registers = target_core(t) ? registers_of : NULL,
		.registers_arg = t,
		.unwind = options->unwind,
	};
	struct error *err;

	if (!dump)
		return &error_no_memory;
	dump->img = img;
	dump->minor = lay->minor;
	dump->core = target_core(t);
	dump->pid = dump->core ? dump->core->pid : target_pid(t);
	dump->exe = target_exe_name(t);
	err = goroutine_set_open(t, img, lay, &goroutines, &dump->set);
	if (!err && options->values)
		err = values_open(t, img, options->variables, &dump->values);
	if (!err)
		err = scan_all(dump->set, dump->core);
	if (!err && dump->core)
		err = panic_read(t, lay, dump);
	if (err)
		return err;
	dump->taken = dump->core ? last_moment(dump, t, lay) : clock_now();
	sort(dump);
	err = read_words(dump, t, thread_address, &lay->n, put_thread);
	if (!err)
		err = name_threads(dump, t);
	if (!err)
		err = read_words(dump, t, bubble_address, &lay->n, put_bubble);
	if (!err && !dump->core && !options->parked_only)
		err = running_collect(t, lay, dump);
	if (!err && options->values)
		err = connections_find(dump, t, lay, options->stop);
	if (!err)
		err = target_check(t);
	if (err)
		return err;
	*ret = take_ptr(dump);
	return NULL;
}

void dump_destroy(struct dump *dump)
{
	if (!dump)
		return;
	oncpu_sampler_close(dump->sampler);
	error_destroy(dump->no_on_cpu);
	wait_graph_destroy(dump->waits);
	values_close(dump->values);
	goroutine_set_close(dump->set);
	free(dump->items);
	free(dump->panic);
	free(dump);
}

/* gStatusStrings of runtime/traceback.go. */
const char *dump_status(const struct dump_goroutine *g)
{
	static const char *const names[] = {
		[G_IDLE] = "idle",           [G_RUNNABLE] = "runnable",
		[G_RUNNING] = "running",     [G_SYSCALL] = "syscall",
		[G_WAITING] = "waiting",     [G_DEAD] = "dead",
		[G_COPYSTACK] = "copystack", [G_PREEMPTED] = "preempted",
		[G_LEAKED] = "leaked",       [G_DEADEXTRA] = "waiting for cgo callback",
	};

	return g->status < ARRAY_SIZE(names) && names[g->status] ? names[g->status] : "???";
}

const char *dump_wait_reason(const struct dump *dump, const struct dump_goroutine *g)
{
	if (g->status != G_WAITING && g->status != G_LEAKED)
		return "";
	return goroutine_set_wait_reason(dump->set, g->wait_reason);
}

const char *dump_state(const struct dump *dump, const struct dump_goroutine *g)
{
	const char *reason = dump_wait_reason(dump, g);

	return *reason ? reason : dump_status(g);
}
