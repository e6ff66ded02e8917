#include <gospect/watch.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "lib/error_api.h"
#include "lib/options.h"
#include "lib/watch_looks.h"

#define STEP_NS 50000000ull

static void cleanup_looks(struct looks *l)
{
	looks_release(l);
}

struct gospect_error *gospect_watch_check(const char *const *conditions)
{
	_cleanup_(cleanup_looks) struct looks l = {0};

	return error_out(looks_parse(&l, conditions));
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Sleeps until then, or until the target is cancelled. */
static struct error *must_check sleep_until(struct gospect_target *t, uint64_t until)
{
	struct error *err = NULL;

	for (uint64_t now = clock_now(); !err && now < until; now = clock_now()) {
		uint64_t ns = until - now < STEP_NS ? until - now : STEP_NS;
		struct timespec pause = {0, (long)ns};

		nanosleep(&pause, NULL);
		err = target_check_cancel(t);
	}
	return err;
}

/* When the next look begins, so that all together take no more than the budget. */
static uint64_t next_look(const struct gospect_watch_options *o, uint64_t began, double spent)
{
	double interval = o->interval > 0 ? o->interval : 1;
	double least = spent / (o->budget > 0 ? o->budget : 1) * 100;

	return began + (uint64_t)((interval > least ? interval : least) * 1e9);
}

static struct error *must_check run(struct gospect_target *t, const struct gospect_watch_options *o,
				    struct looks *l, struct gospect_watch_info *info)
{
	struct error *err = NULL;

	while (!err) {
		uint64_t began = clock_now();
		double before = cpu_seconds();

		err = target_check_cancel(t);
		if (!err)
			err = looks_look(l);
		info->looks++;
		if (!err)
			err = sleep_until(t, next_look(o, began, cpu_seconds() - before));
	}
	/* A process that ends may look like a broken one before it is gone. */
	if (err != &error_stopped && err != &error_no_memory) {
		struct error *gone = target_check(t->target);

		if (gone) {
			error_destroy(err);
			err = gone;
		}
	}
	if (err && err->code == ERROR_GONE) {
		info->ended = 1;
		error_destroy(err);
		return NULL;
	}
	return err == &error_stopped ? NULL : err;
}

struct gospect_error *gospect_watch(struct gospect_target *t,
				    const struct gospect_watch_options *given,
				    struct gospect_watch_info *ret_info)
{
	_cleanup_(cleanup_looks) struct looks l = {.target = t};
	struct gospect_watch_options o = {0};
	struct gospect_watch_info info = {0};
	uint64_t began = clock_now();
	double before = cpu_seconds();
	struct error *err = options_take(given, &o, sizeof(o), "gospect_watch_options");

	if (!err)
		err = looks_parse(&l, o.conditions);
	if (!err) {
		l.rest_ns = (o.rest > 0 ? o.rest : 60) * 1e9;
		l.incident = o.incident;
		l.arg = o.arg;
		counters_init(&l.counters, t->image, t->layout);
		err = run(t, &o, &l, &info);
	}
	info.incidents = l.incidents;
	info.rested = l.rested;
	info.cpu_percent = (cpu_seconds() - before) / ((clock_now() - began + 1) / 1e9) * 100;
	if (ret_info)
		*ret_info = info;
	return error_out(err);
}
