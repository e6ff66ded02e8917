/*
 * The profiles that the Go runtime keeps by itself. Which of them a program keeps depends on rates
 * in its memory.
 */
#include <gospect/heap.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/ticks.h"
#include "lib/error_api.h"
#include "lib/fill.h"
#include "lib/heap.h"
#include "lib/options.h"
#include "lib/profile_handle.h"
#include "memory/heap_profile_off.h"

#define MOST_SECONDS 86400
#define MEASURE_NS 20000000L
#define PAUSE_NS 20000000ull

/* The runtime scales mutex events when it counts them: saveblockevent, from Go 1.20 on. */
#define FIRST_WITH_SCALED_MUTEXES 20

static enum bucket_kind bucket_kind_of(uint32_t kind)
{
	return kind == GOSPECT_BLOCK   ? BUCKET_BLOCK
	       : kind == GOSPECT_MUTEX ? BUCKET_MUTEX
				       : BUCKET_MEMORY;
}

static struct error *must_check take_options(const struct gospect_heap_options *given,
					     struct gospect_heap_options *o)
{
	struct error *err = options_take(given, o, sizeof(*o), "gospect_heap_options");

	if (err)
		return err;
	if (o->kind > GOSPECT_GOROUTINELEAK)
		return error_format(ERROR_USAGE,
				    "invalid kind %u of profile; see enum gospect_heap_kind",
				    o->kind);
	if (!(o->live >= 0 && o->live <= MOST_SECONDS) || (o->live && o->kind > GOSPECT_ALLOCS))
		return error_format(
			ERROR_USAGE,
			"invalid .live %g: it must be 0 to %d seconds, and 0 unless the kind is GOSPECT_HEAP or GOSPECT_ALLOCS",
			o->live, MOST_SECONDS);
	return NULL;
}

/* 0: not known. */
static struct error *must_check read_rate(const struct gospect_target *t, uint64_t address,
					  uint64_t *ret)
{
	*ret = 0;
	return address ? target_read_u64(t->target, address, ret) : NULL;
}

/* ---- memory ---- */

static struct error *must_check read_memory(const struct gospect_target *t,
					    const struct heap_variables *v, bool up_to_now,
					    struct runtime_buckets *ret, int64_t *ret_rate)
{
	/* A live profile that is cancelled ends early, and is valid. */
	const struct buckets_wanted wanted = {.kind = BUCKET_MEMORY,
					      .up_to_now = up_to_now,
					      .cancel = up_to_now ? NULL : t->cancel};
	uint64_t rate;
	struct error *err = read_rate(t, v->mem_rate, &rate);

	/* A few samples may be older than the rate. */
	if (!err && !rate)
		err = heap_profile_off(t->image);
	if (!err)
		err = runtime_buckets_read(t->target, t->layout, v, &wanted, ret);
	*ret_rate = (int64_t)rate;
	return err;
}

static void remark_uncertain(const struct gospect_target *t, const struct runtime_buckets *b)
{
	if (b->uncertain && target_core(t->target))
		remark(&t->remark,
		       "the core file was written while the program published its profile; "
		       "some stacks may count twice");
	else if (b->uncertain)
		remark(&t->remark,
		       "%zu stacks changed at each read; their count may be one event ahead of their time",
		       b->uncertain);
}

/* Until the time is over, it is cancelled, or the target is gone. */
static struct error *must_check wait_for(const struct gospect_target *t, double seconds)
{
	uint64_t end = clock_now() + (uint64_t)(seconds * 1e9), now;

	while ((now = clock_now()) < end && !atomic_load(t->cancel)) {
		uint64_t left = end - now;
		struct timespec pause = {.tv_nsec = left < PAUSE_NS ? left : PAUSE_NS};
		struct error *err = target_check(t->target);

		if (err)
			return err;
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static struct error *must_check add_live(struct profile *p, const struct gospect_target *t,
					 const struct heap_variables *v, double seconds)
{
	_cleanup_runtime_buckets_ struct runtime_buckets before = {0}, after = {0};
	uint64_t start = clock_now();
	int64_t rate;
	struct error *err;

	if (target_core(t->target))
		return error_format(ERROR_USAGE, "a core file does not allocate; leave out .live");
	err = read_memory(t, v, true, &before, &rate);
	if (!err)
		err = wait_for(t, seconds);
	if (!err)
		err = read_memory(t, v, true, &after, &rate);
	if (err)
		return err;
	p->duration_ns = clock_now() - start;
	return heap_add_growth(p, t, &before, &after, rate);
}

static struct error *must_check add_memory(struct profile *p, const struct gospect_target *t,
					   const struct heap_variables *v,
					   const struct gospect_heap_options *o)
{
	_cleanup_runtime_buckets_ struct runtime_buckets b = {0};
	bool is_allocs = o->kind == GOSPECT_ALLOCS || o->live;
	int64_t rate;
	struct error *err = heap_begin(p, BUCKET_MEMORY);

	if (is_allocs)
		p->preferred = p->types[1].type;
	if (err || o->live)
		return err ? err : add_live(p, t, v, o->live);
	err = read_memory(t, v, false, &b, &rate);
	if (err)
		return err;
	remark_uncertain(t, &b);
	return heap_add_memory(p, t, &b, rate, is_allocs ? 0 : 2);
}

/* ---- blocking and mutexes ---- */

/* As cputicks() counts: the TSC, and the counter of arm64. Its rate is the same on all CPUs. */
static double measured_ticks_per_ns(void)
{
	const struct timespec pause = {.tv_nsec = MEASURE_NS};
	struct tick_pair first = ticks_measure(), second;

	nanosleep(&pause, NULL);
	second = ticks_measure();
	return (double)(second.tick - first.tick) / (double)(second.ns - first.ns);
}

static struct error *must_check ticks_per_ns(struct gospect_target *t,
					     const struct heap_variables *v, double *ret)
{
	uint64_t rate;
	struct error *err = read_rate(t, v->ticks, &rate);

	if (err)
		return err;
	*ret = rate ? (double)(int64_t)rate / 1e9 : 0;
	if (*ret > 0)
		return NULL;
	if (target_core(t->target))
		return error_format(
			ERROR_FAILED,
			"cannot convert blocked time to seconds: the program had not yet computed the length of a CPU clock tick");
	if (!(t->ticks_per_ns > 0))
		t->ticks_per_ns = measured_ticks_per_ns();
	*ret = t->ticks_per_ns;
	return NULL;
}

static struct error *must_check no_events(const struct gospect_target *t, enum bucket_kind kind,
					  uint64_t rate)
{
	const char *call = kind == BUCKET_BLOCK ? "runtime.SetBlockProfileRate"
						: "runtime.SetMutexProfileFraction";
	const char *name = kind == BUCKET_BLOCK ? "block" : "mutex";

	if (rate)
		return NULL; /* it is on, and nothing has happened */
	return error_format(
		ERROR_FAILED,
		"the program keeps no %s profile: it did not call %s; use gospect offcpu, which measures every wait, or gospect record --off-cpu",
		name, call);
}

static struct error *must_check read_blocking(struct gospect_target *t,
					      const struct heap_variables *v, enum bucket_kind kind,
					      struct runtime_buckets *ret, uint64_t *ret_rate,
					      double *ret_ticks)
{
	const struct buckets_wanted wanted = {.kind = kind, .cancel = t->cancel};
	struct error *err =
		read_rate(t, kind == BUCKET_BLOCK ? v->block_rate : v->mutex_rate, ret_rate);

	if (!err)
		err = runtime_buckets_read(t->target, t->layout, v, &wanted, ret);
	if (!err && !ret->count)
		err = no_events(t, kind, *ret_rate);
	if (!err && ret->count)
		err = ticks_per_ns(t, v, ret_ticks);
	if (!err)
		remark_uncertain(t, ret);
	return err;
}

static struct error *must_check add_blocking(struct profile *p, struct gospect_target *t,
					     const struct heap_variables *v, enum bucket_kind kind)
{
	_cleanup_runtime_buckets_ struct runtime_buckets b = {0};
	bool scales = kind == BUCKET_MUTEX && t->layout->minor < FIRST_WITH_SCALED_MUTEXES;
	uint64_t rate;
	double ticks;
	struct error *err = heap_begin(p, kind);

	if (!err)
		err = read_blocking(t, v, kind, &b, &rate, &ticks);
	if (err || !b.count)
		return err;
	return heap_add_blocking(p, t, &b, kind, scales ? (int64_t)rate : 1, ticks);
}

/* ---- for the text of debug=1 ---- */

struct error *heap_read_memory(const struct gospect_target *t, struct runtime_buckets *ret,
			       int64_t *ret_rate)
{
	struct heap_variables v;
	struct error *err = heap_variables_find(t->image, t->layout, &v);

	if (!err)
		err = read_memory(t, &v, false, ret, ret_rate);
	if (!err)
		remark_uncertain(t, ret);
	return err;
}

struct error *heap_read_blocking(struct gospect_target *t, enum bucket_kind kind,
				 struct runtime_buckets *ret, int64_t *ret_rate,
				 double *ret_ticks_per_ns)
{
	struct heap_variables v;
	uint64_t rate = 0;
	struct error *err = heap_variables_find(t->image, t->layout, &v);

	*ret_ticks_per_ns = 0;
	if (!err)
		err = read_blocking(t, &v, kind, ret, &rate, ret_ticks_per_ns);
	*ret_rate = (int64_t)rate;
	return err;
}

/* ---- all ---- */

const char *heap_kind_name(uint32_t kind)
{
	static const char *const names[] = {"heap",      "allocs",       "block",        "mutex",
					    "goroutine", "threadcreate", "goroutineleak"};

	return names[kind];
}

static struct error *must_check fill_profile(struct gospect_profile *ret, struct gospect_target *t,
					     const struct gospect_heap_options *o)
{
	const struct pclntab functions = heap_functions(t);
	const struct code code = {.functions = &functions};
	struct profile *p = ret->profile;
	struct heap_variables v;
	struct error *err = fill_process(p, t);

	p->runtime_name = heap_kind_name(o->kind);
	if (!err && (o->kind == GOSPECT_GOROUTINE || o->kind == GOSPECT_GOROUTINELEAK))
		return heap_add_goroutines(p, t, o->kind, &ret->symbols);
	if (!err && o->kind == GOSPECT_THREADCREATE)
		err = heap_add_threads(p, t);
	else if (!err)
		err = heap_variables_find(t->image, t->layout, &v);
	if (!err && o->kind < GOSPECT_BLOCK)
		err = add_memory(p, t, &v, o);
	else if (!err && o->kind < GOSPECT_GOROUTINE)
		err = add_blocking(p, t, &v, bucket_kind_of(o->kind));
	return err ? err
		   : profile_symbolize_code(p, &code, o->live ? NULL : t->cancel, &ret->symbols);
}

struct gospect_error *gospect_heap_profile(struct gospect_target *t,
					   const struct gospect_heap_options *given,
					   struct gospect_profile **ret)
{
	_cleanup_profile_handle_ struct gospect_profile *p = profile_new();
	struct gospect_heap_options o = {0};
	struct error *err = p ? take_options(given, &o) : &error_no_memory;

	if (err)
		return error_out(err);
	p->profile->time_ns = target_core(t->target) ? 0 : clock_read(CLOCK_REALTIME);
	if (!o.live)
		target_remark_stopped(t);
	err = fill_profile(p, t, &o);
	if (err)
		return error_out(err == &error_stopped ? err : target_explain(t->target, err));
	profile_describe(p, true);
	*ret = take_ptr(p);
	return NULL;
}
