#include "dump/on_cpu_stacks.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "oncpu/sampler.h"

/* Samples for each second of a thread's CPU time: a thread on a CPU is sampled within the first
 * millisecond. */
#define SAMPLE_HZ 4000
#define STEP_US 1000
#define CPU_SAMPLE_NS 20000000ull
/* The part of a stack that has values. */
#define VALUES_BYTES 8192
/* How long to wait for goroutines that run according to the runtime, but get no CPU. */
#define PATIENCE_NS 200000000ull
/* Above this number, only threads that run goroutines are sampled. A goroutine that moves to
 * another thread meanwhile is then missed. */
#define MAX_THREADS 64

struct catch
{
	struct dump *dump;
	uint64_t since; /* CLOCK_MONOTONIC: all headers of the dump were read before */
	struct error *failed;
};

static bool is_wanted(const struct dump_goroutine *g)
{
	return g->status == G_RUNNING && !g->on_cpu && !g->unknown;
}

/* A sample in the vDSO, for example, may lack callers, and the next one has them. */
static bool is_cut(const struct dump *dump, const struct dump_goroutine *g)
{
	return g->status == G_RUNNING && g->on_cpu &&
	       stacks_get(goroutine_set_stacks(dump->set), g->stack).truncated;
}

static int compare_id(const void *key, const void *item)
{
	const uint64_t *id = key;
	const struct dump_goroutine *g = item;

	return (*id > g->id) - (*id < g->id);
}

static void take(void *arg, const struct oncpu_sighting *seen)
{
	struct catch *c = arg;
	struct dump_goroutine *g = bsearch(&seen->goid, c->dump->items, c->dump->count,
					   sizeof(*c->dump->items), compare_id);

	if (!g || seen->time < c->since ||
	    !(is_wanted(g) || (is_cut(c->dump, g) && !seen->truncated)))
		return;
	g->stack = seen->stack;
	g->on_cpu = true;
	if (c->dump->values && !c->failed)
		c->failed = values_take(c->dump->values, &seen->memory,
					stacks_get(goroutine_set_stacks(c->dump->set), g->stack),
					&g->values);
}

static size_t count_wanted(const struct dump *dump)
{
	size_t n = 0;

	for (size_t i = 0; i < dump->count; i++)
		n += is_wanted(&dump->items[i]);
	return n;
}

static size_t count_cut(const struct dump *dump)
{
	size_t n = 0;

	for (size_t i = 0; i < dump->count; i++)
		n += is_cut(dump, &dump->items[i]);
	return n;
}

/* Whether a goroutine without a stack still runs, or runs again. */
static bool one_still_runs(struct target *t, const struct golayout *lay, const struct dump *dump)
{
	uint32_t status;

	for (size_t i = 0; i < dump->count; i++)
		if (is_wanted(&dump->items[i]) &&
		    !error_dropped(target_read(t, g_at_status(&lay->n, dump->items[i].g), &status,
					       sizeof(status))) &&
		    (status & 0xff) == G_RUNNING)
			return true;
	return false;
}

/* All threads; if there are too many, those that run goroutines. */
static struct error *list_threads(struct target *t, const struct dump *dump, pid_t **ret,
				  size_t *ret_count)
{
	_cleanup_free_ struct target_thread *threads = NULL;
	size_t count, n = 0;
	struct error *err = target_threads(t, &threads, &count);
	bool all = !err && count <= MAX_THREADS;
	pid_t *tids;

	if (err)
		return err;
	tids = calloc((all ? count : count_wanted(dump)) + 1, sizeof(*tids));
	if (!tids)
		return &error_no_memory;
	for (size_t i = 0; all && i < count; i++)
		tids[n++] = threads[i].id;
	for (size_t i = 0; !all && i < dump->count; i++)
		if (is_wanted(&dump->items[i]) && dump->items[i].thread)
			tids[n++] = dump->items[i].thread;
	*ret = tids;
	*ret_count = n;
	return NULL;
}

static struct error *open_sampler(struct target *t, const struct golayout *lay, struct catch *c)
{
	_cleanup_free_ pid_t *threads = NULL;
	struct oncpu_options options = {
		.hz = SAMPLE_HZ,
		.seen = take,
		.arg = c,
		.stack_bytes = c->dump->values ? VALUES_BYTES : 0,
	};
	struct error *err = list_threads(t, c->dump, &threads, &options.thread_count);

	if (err)
		return err;
	options.threads = threads;
	return oncpu_sampler_open(t, c->dump->img, lay, c->dump->set, &options, &c->dump->sampler);
}

static struct error *wait_for_all(struct target *t, const struct golayout *lay, struct catch *c)
{
	struct error *err = NULL;

	while (!err && (count_wanted(c->dump) || count_cut(c->dump))) {
		uint64_t passed = clock_now() - c->since;

		if (passed > PATIENCE_NS ||
		    (passed > CPU_SAMPLE_NS && !one_still_runs(t, lay, c->dump)))
			break;
		usleep(STEP_US);
		err = oncpu_sampler_drain(c->dump->sampler);
	}
	return err ? err : c->failed;
}

struct error *running_collect(struct target *t, const struct golayout *lay, struct dump *dump)
{
	struct catch c = {dump, clock_now(), NULL};
	struct error *err;

	/* Only a live process has threads to sample. */
	if (!target_pid(t) || !count_wanted(dump))
		return NULL;
	err = open_sampler(t, lay, &c);
	if (err == &error_no_memory)
		return err;
	if (err) {
		dump->no_on_cpu = err;
		return NULL;
	}
	return wait_for_all(t, lay, &c);
}
