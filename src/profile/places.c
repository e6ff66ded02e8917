#include "profile/places.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "profile/awaiting.h"

static const char *const gc_roots[] = {
	"[GC]",
	"runtime.gcBgMarkWorker",
	"runtime.gcAssistAlloc",
	"runtime.bgsweep",
	"runtime.bgscavenge",
	"runtime.gcStart",
};

const char gc_functions[] = "^\\[GC\\]$|^runtime\\.(gcBgMarkWorker|gcAssistAlloc|bgsweep|"
			    "bgscavenge|gcStart)$";

static void places_release(struct places *p)
{
	map_release(&p->index);
	free(p->items);
}

void tally_release(struct tally *t)
{
	places_release(&t->requests);
	places_release(&t->locks);
	places_release(&t->blocked);
	places_release(&t->syscalls);
	places_release(&t->loops);
	places_release(&t->waits);
	places_release(&t->selves);
	free(t->blocked_at);
	stack_tree_release(&t->cpu);
}

static bool places_add(struct places *p, const struct place *add)
{
	uint64_t *at = map_at(&p->index, place_key(add));

	if (!at)
		return false;
	if (!*at) {
		if (!array_reserve(&p->items, &p->capacity, p->count + 1))
			return false;
		p->items[p->count++] = (struct place){.function = add->function, .wait = add->wait};
		*at = p->count;
	}
	p->items[*at - 1].time += add->time;
	p->items[*at - 1].idle += add->idle;
	return true;
}

static int by_time(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? 1 : -1;
	return x->function < y->function ? -1 : x->function > y->function;
}

/* The index is invalid afterwards. */
static void places_sort(struct places *p)
{
	if (p->count)
		qsort(p->items, p->count, sizeof(*p->items), by_time);
}

/* A sample and its stack while they are added. */
struct visit {
	struct tally *tally;
	const struct profile *profile;
	const struct profile_symbols *symbols;
	const struct profile_sample *sample;
	struct symbol_stack stack;
};

static uint32_t function_at(const struct visit *v, size_t i)
{
	return v->symbols->source_lines[v->symbols->lines[v->stack.frames[i]]].function;
}

static const char *name_at(const struct visit *v, size_t i)
{
	return intern_get(&v->symbols->strings, function_at(v, i));
}

/* The number of frames within a request; all of them outside of one. */
static size_t request_depth(const struct visit *v)
{
	for (size_t i = 0; i < v->stack.count; i++)
		if (is_request_entry(name_at(v, i)))
			return i;
	return v->stack.count;
}

static uint32_t place_in(const struct visit *v, size_t depth)
{
	for (size_t i = 0; i < depth; i++)
		if (!is_plumbing(name_at(v, i)))
			return function_at(v, i);
	return function_at(v, depth ? depth - 1 : 0);
}

static bool is_lock(const char *wait)
{
	return !strncmp(wait, "sync.Mutex", 10) || !strncmp(wait, "sync.RWMutex", 12) ||
	       !strcmp(wait, "semacquire") || !strcmp(wait, "sync");
}

/*
 * A semaphore of the runtime's own: of the garbage collector, or of who stops the world. Only the
 * runtime calls runtime.semacquire (runtime/sema.go, Go 1.17 to 1.27), others go through
 * sync.runtime_Semacquire and the like. In a trace the stack begins with the caller.
 */
static bool is_of_runtime(const struct visit *v)
{
	static const char *const parking[] = {"runtime.gopark", "runtime.goparkunlock",
					      "runtime.semacquire1", "runtime.semacquire"};
	size_t i = 0, k = 0;

	while (i < v->stack.count && k < ARRAY_SIZE(parking)) {
		for (k = 0; k < ARRAY_SIZE(parking) && strcmp(name_at(v, i), parking[k]) != 0;)
			k++;
		i += k < ARRAY_SIZE(parking);
	}
	return i < v->stack.count && !strncmp(name_at(v, i), "runtime.", strlen("runtime."));
}

static bool is_gc(const struct visit *v)
{
	for (size_t i = 0; i < v->stack.count; i++)
		for (size_t j = 0; j < ARRAY_SIZE(gc_roots); j++)
			if (!strcmp(name_at(v, i), gc_roots[j]))
				return true;
	return false;
}

static bool add_cpu(const struct visit *v)
{
	struct tally *t = v->tally;
	uint32_t node = 0;

	t->cpu_ns += v->sample->cpu_ns;
	if (is_gc(v)) {
		t->gc_ns += v->sample->cpu_ns;
		return true;
	}
	for (size_t i = v->stack.count; i-- > 0;)
		if (!stack_tree_child(&t->cpu, node, function_at(v, i), &node))
			return false;
	t->cpu.nodes[node].self += v->sample->cpu_ns;
	return !v->stack.count ||
	       places_add(&t->selves, &(struct place){function_at(v, 0), 0, v->sample->cpu_ns, 0});
}

static bool add_blocked(const struct visit *v, uint64_t time, uint64_t idle)
{
	size_t depth = request_depth(v);
	struct place place = {place_in(v, depth), v->sample->wait, time, idle};

	if (!places_add(&v->tally->blocked, &place) ||
	    !places_add(&v->tally->waits, &(struct place){0, place.wait, time, idle}))
		return false;
	v->tally->waiting += time;
	if (idle < time)
		v->tally->blocked_at[v->sample - v->profile->samples] = place_key(&place);
	if (depth < v->stack.count)
		return places_add(&v->tally->requests, &place);
	return !is_lock(intern_get(&v->profile->strings, place.wait)) || is_of_runtime(v) ||
	       places_add(&v->tally->locks, &place);
}

/* A function that reads for a server's loop, and does not identify the loop. */
static bool is_reader(const char *name)
{
	return is_plumbing(name) || !strcmp(name, "net/http.(*connReader).Read");
}

/* Adds the loop, by its innermost function that is not plumbing. */
static bool add_loop(const struct visit *v, uint64_t time, uint64_t idle)
{
	struct place place = {.time = time, .idle = idle};
	size_t i = 0;

	while (i + 1 < v->stack.count && is_reader(name_at(v, i)))
		i++;
	place.function = function_at(v, i);
	return places_add(&v->tally->loops, &place);
}

static bool add_syscall(const struct visit *v, uint64_t time)
{
	struct place place = {place_in(v, v->stack.count), 0, time, 0};

	v->tally->syscall += time;
	return !time || places_add(&v->tally->syscalls, &place);
}

static bool add_visit(const struct visit *v)
{
	const struct profile_sample *s = v->sample;
	struct tally *t = v->tally;
	uint64_t time = t->timed ? s->wall_ns : s->count;
	uint64_t idle = t->timed ? s->idle_ns : s->idle_count;

	bool awaits = sample_awaits_work(v->profile, v->symbols, s, &v->stack);

	idle = awaits ? time : idle;
	if (!add_loop(v, time, awaits ? time : 0))
		return false;
	t->total += time;
	t->busy += time - idle;
	t->request += request_depth(v) < v->stack.count ? time : 0;
	t->running += s->state == PROFILE_RUNNING ? time : 0;
	t->runnable += s->state == PROFILE_RUNNABLE ? time : 0;
	if (s->cpu_ns && !add_cpu(v))
		return false;
	if (s->state == PROFILE_SYSCALL)
		return add_syscall(v, time - idle);
	return s->state != PROFILE_WAITING || add_blocked(v, time, idle);
}

static bool has_time(const struct profile *p)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->samples[i].wall_ns)
			return true;
	return false;
}

struct error *tally_make(const struct profile *p, const struct profile_symbols *symbols,
			 struct tally *ret)
{
	_cleanup_tally_ struct tally t = {.timed = has_time(p)};
	struct visit v = {.tally = &t, .profile = p, .symbols = symbols};
	struct error *err = NULL;

	t.blocked_at = calloc(p->count + 1, sizeof(*t.blocked_at));
	if (!t.blocked_at)
		return &error_no_memory;
	for (size_t i = 0; i < p->count && !err; i++) {
		v.sample = &p->samples[i];
		err = symbols_stack(symbols, v.sample, &v.stack);
		if (!err && !add_visit(&v))
			err = &error_no_memory;
	}
	symbol_stack_release(&v.stack);
	if (err)
		return err;
	places_sort(&t.requests);
	places_sort(&t.locks);
	places_sort(&t.blocked);
	places_sort(&t.syscalls);
	places_sort(&t.loops);
	places_sort(&t.waits);
	places_sort(&t.selves);
	*ret = t;
	t = (struct tally){0};
	return NULL;
}
