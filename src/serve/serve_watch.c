#include "serve/serve_watch.h"

#include <errno.h>
#include <math.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "lib/error_api.h"
#include "lib/profile_join.h"
#include "lib/resident.h"
#include "lib/top_numbers.h"
#include "serve/serve_request.h"

/* Little: 10 looks a second, and a thousandth of a core. */
#define RATE 10
#define BUDGET 0.1
#define BEAT_SECONDS 10
#define FIRST_SECONDS 1
/* Profiles are made so rarely that they take half of the budget, but once a minute. */
#define PROFILE_SHARE 0.0005
#define MOST_BEATS 6

struct watch {
	struct gospect_top *top;
	struct serve_store *store;
	pid_t pid;
	unsigned int seconds; /* since the last profile */
	unsigned int due;     /* when the next one is made */
};

static void drop_top(struct gospect_top **top)
{
	gospect_top_destroy(*top);
}

static void drop_profile(struct gospect_profile **p)
{
	gospect_profile_destroy(*p);
}
#define _cleanup_profile_ _cleanup_(drop_profile)

static int collect(void *arg, const void *bytes, size_t size)
{
	struct strbuf *sb = arg;

	strbuf_add(sb, bytes, size);
	return sb->failed ? ENOMEM : 0;
}

/* ---- profiles ---- */

static struct error *must_check keep_profile(struct watch *w)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	_cleanup_profile_ struct gospect_profile *p = NULL;
	struct error *err = top_watch_profile(w->top, w->seconds, &p);
	const struct gospect_profile_info *info;

	if (!err)
		err = error_in(gospect_profile_write(p, GOSPECT_PPROF,
						     gospect_sink_function(collect, &bytes)));
	if (err)
		return err;
	info = gospect_profile_info(p);
	serve_store_add(w->store,
			&(struct serve_stored){info->start_ns / 1e9,
					       (info->start_ns + info->duration_ns) / 1e9},
			&bytes);
	return NULL;
}

static struct error *must_check keep_profile_if_due(struct watch *w, double seconds)
{
	uint64_t cpu = clock_cpu();
	struct error *err;
	double needed;

	w->seconds += (unsigned int)(seconds + 0.5);
	if (!w->store || w->seconds < w->due)
		return NULL;
	err = keep_profile(w);
	needed = ceil((clock_cpu() - cpu) / 1e9 / PROFILE_SHARE / BEAT_SECONDS);
	w->due = BEAT_SECONDS * (needed < 1 ? 1 : needed > MOST_BEATS ? MOST_BEATS : needed);
	w->seconds = 0;
	return err;
}

/* ---- beats ---- */

static struct error *must_check take_beat(struct watch *w, struct serve_beat *ret)
{
	struct top_numbers n;
	struct error *err = top_numbers_take(w->top, &n);

	if (err)
		return err;
	*ret = (struct serve_beat){.seconds = n.seconds,
				   .cpu = n.cpu,
				   .locks = n.locks,
				   .end = (double)clock_read(CLOCK_REALTIME) / 1e9,
				   .resident = (double)resident_read(w->pid).rss,
				   .has_requests = n.has_requests};
	for (size_t i = 0; i < ARRAY_SIZE(ret->states); i++)
		ret->states[i] = n.states[i];
	if (n.has_requests) {
		ret->requests = n.requests.rate;
		ret->progress = n.requests.current;
		ret->p50 = (double)n.requests.p50 / 1e9;
		ret->p99 = (double)n.requests.p99 / 1e9;
	}
	return NULL;
}

/* *ret_ended: the process has. */
static struct error *must_check look_for(struct watch *w, double seconds,
					 const struct gospect_cancel *cancel, bool *ret_ended)
{
	uint64_t until = clock_now() + (uint64_t)(seconds * 1e9);
	struct error *err = NULL;

	while (!err && !*ret_ended && clock_now() < until && !gospect_cancel_is_requested(cancel))
		err = top_watch_step(w->top, ret_ended);
	return err;
}

struct error *serve_watch(struct gospect_target *target, pid_t pid, struct serve_store *store,
			  const struct gospect_cancel *cancel, struct gospect_sink to)
{
	_cleanup_(drop_top) struct gospect_top *top = NULL;
	struct error *err = top_watch_create(target, BUDGET, RATE, BEAT_SECONDS, &top);
	struct watch w = {.top = top, .store = store, .pid = pid, .due = BEAT_SECONDS};
	double seconds = FIRST_SECONDS;
	bool ended = false;

	while (!err && !ended && !gospect_cancel_is_requested(cancel)) {
		struct serve_beat beat;

		err = look_for(&w, seconds, cancel, &ended);
		if (!err)
			err = take_beat(&w, &beat);
		if (!err && beat.seconds > 0 && to.write(to.arg, &beat, sizeof(beat)))
			break;
		if (!err)
			err = keep_profile_if_due(&w, beat.seconds);
		seconds = BEAT_SECONDS;
	}
	return err;
}

/* ---- a part of the hour ---- */

static struct error *must_check add_stored(const struct serve_store *s, size_t i,
					   struct gospect_profile *to)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	_cleanup_profile_ struct gospect_profile *p = NULL;

	/* One that is damaged is being replaced: it is the oldest. */
	if (!serve_store_get(s, i, &bytes) ||
	    error_dropped(error_in(gospect_profile_read(bytes.data, bytes.length, &p))))
		return NULL;
	return profile_join(to, p);
}

/* Of those that lie mostly in that time. */
static struct error *must_check join(const struct serve_store *s, double from, double to,
				     const char *title, struct gospect_profile **ret)
{
	_cleanup_profile_ struct gospect_profile *p = NULL;
	struct error *err = error_in(gospect_profile_create(title, &p));
	size_t count = serve_store_count(s);
	struct serve_stored when;

	for (size_t i = 0; !err && i < count; i++) {
		double middle =
			serve_store_when(s, i, &when) ? (when.begin + when.end) / 2 : INFINITY;

		if (middle >= from && middle <= to)
			err = add_stored(s, i, p);
	}
	if (!err && !gospect_profile_info(p)->duration_ns)
		err = error_format(
			ERROR_GONE,
			"no history of that time: gospect keeps the last hour, beginning 10 s after its start");
	if (!err)
		*ret = take_ptr(p);
	return err;
}

struct error *serve_hour_write(const struct serve_store *s, double from, double to,
			       enum gospect_format format, struct gospect_sink sink)
{
	_cleanup_profile_ struct gospect_profile *p = NULL;
	struct error *err = join(s, from, to, "a part of the last hour", &p);

	return err ? err : error_in(gospect_profile_write(p, format, sink));
}

/* Of the oldest that is there. */
static double first_begin(const struct serve_store *s)
{
	struct serve_stored when;

	for (size_t i = 0; i < serve_store_count(s); i++)
		if (serve_store_when(s, i, &when))
			return when.begin;
	return -INFINITY;
}

struct error *serve_growth_write(const struct serve_store *s, double from, double to,
				 struct gospect_sink sink)
{
	_cleanup_profile_ struct gospect_profile *before = NULL, *after = NULL;
	double begin = fmax(from, first_begin(s)), third = (to - begin) / 3;
	struct error *err = join(s, begin, begin + third, "before", &before);

	if (!err)
		err = join(s, to - third, to, "after", &after);
	return err ? err : error_in(gospect_profile_write_diff(before, after, sink));
}
