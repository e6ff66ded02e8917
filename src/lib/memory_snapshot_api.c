#include "lib/memory_snapshot_api.h"

#include <gospect/memory_snapshot.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "hooks/take_snapshot.h"
#include "lib/error_api.h"
#include "lib/options.h"
#include "lib/surgeon_api.h"

/* A handle's snapshot, and the process itself. */
struct held_snapshot {
	struct target *live;
	struct memory_snapshot_taken *taken;
	struct gospect_surgeon *surgeon; /* our own; or NULL */
};

static void say_before(const struct gospect_target *t, const struct snapshot_expectation *e,
		       bool stop)
{
	int pid = target_pid(t->target);

	if (stop)
		remark(&t->remark, "stopping process %d for about %.3g ms to read its memory", pid,
		       e->stop_ns / 1e6);
	else if (e->no_fork[0])
		remark(&t->remark,
		       "process %d cannot be forked (%s); stopping it for about %.3g ms instead, to read its memory",
		       pid, e->no_fork, e->stop_ns / 1e6);
	else
		remark(&t->remark,
		       "stopping process %d for about %.3g ms to fork it (%llu KB of page tables)",
		       pid, e->fork_ns / 1e6, (unsigned long long)e->page_table_bytes / 1024);
}

static void say_after(const struct gospect_target *t, const struct snapshot_result *r)
{
	int pid = target_pid(t->target);

	if (r->way == SNAPSHOT_STOP)
		remark(&t->remark, "process %d was stopped for %.3g ms%s%s", pid, r->pause_ns / 1e6,
		       r->no_fork[0] ? ": no fork, " : "", r->no_fork);
	else
		remark(&t->remark,
		       "process %d was stopped for %.3g ms; its fork existed for %.3g s, and the kernel copied %.3g MB for it",
		       pid, r->pause_ns / 1e6, r->lived_ns / 1e9, r->copied_bytes / 1e6);
}

static struct error *must_check take_held(struct gospect_target *t, struct held_snapshot *held,
					  const struct gospect_memory_snapshot_options *o)
{
	const struct snapshot_limits limits = {.max_pause_ns = (uint64_t)(o->max_pause * 1e9),
					       .no_fork = o->flags & GOSPECT_MEMORY_SNAPSHOT_STOP};
	struct snapshot_expectation expected;
	struct surgeon_line line;
	struct target *still;
	struct error *err = NULL;

	if (!o->surgeon)
		err = error_in(gospect_surgeon_start(target_pid(t->target), t->cancelled_by,
						     &held->surgeon));
	if (err)
		return err;
	line = surgeon_line_of(o->surgeon ? o->surgeon : held->surgeon);
	err = memory_snapshot_expect(&line, &expected);
	if (err)
		return err;
	t->snapshot_info.expected_pause =
		(limits.no_fork || expected.no_fork[0] ? expected.stop_ns : expected.fork_ns) / 1e9;
	/* One that is longer is refused when it is asked for. */
	if (!(o->max_pause > 0 && t->snapshot_info.expected_pause > o->max_pause))
		say_before(t, &expected, limits.no_fork);
	err = memory_snapshot_take(t->target, t->image, t->layout, &line, &limits, &still,
				   &held->taken);
	if (err)
		return err;
	held->live = t->target;
	t->target = still;
	return NULL;
}

static struct error *must_check take(struct gospect_target *t,
				     const struct gospect_memory_snapshot_options *o)
{
	struct held_snapshot *held;
	struct error *err;

	if (atomic_load(t->cancel))
		return &error_stopped;
	if (target_core(t->target))
		return NULL;
	if (!target_pid(t->target))
		return error_format(ERROR_USAGE,
				    "cannot take a snapshot: the target is not a process");
	if (t->snapshot)
		return error_format(ERROR_USAGE,
				    "cannot take a second snapshot; end the first one");
	if (!(o->max_pause >= 0 && o->max_pause <= 3600))
		return error_format(ERROR_USAGE, "invalid max_pause %g; the limit is 3600 s",
				    o->max_pause);
	held = calloc(1, sizeof(*held));
	if (!held)
		return &error_no_memory;
	t->snapshot_info = (struct gospect_memory_snapshot_info){0};
	err = take_held(t, held, o);
	if (err) {
		gospect_surgeon_end(held->surgeon);
		free(held);
		return err;
	}
	t->snapshot = held;
	return NULL;
}

struct gospect_error *
gospect_target_take_memory_snapshot(struct gospect_target *t,
				    const struct gospect_memory_snapshot_options *given)
{
	struct gospect_memory_snapshot_options o = {0};
	struct error *err = options_take(given, &o, sizeof(o), "gospect_memory_snapshot_options");

	return error_out(err ? err : take(t, &o));
}

static struct error *must_check end(struct gospect_target *t, struct snapshot_result *r)
{
	struct held_snapshot *held = take_ptr(t->snapshot);
	struct error *err;

	target_close(t->target);
	t->target = held->live;
	err = memory_snapshot_give_back(held->taken, r);
	gospect_surgeon_end(held->surgeon);
	free(held);
	t->snapshot_info.is_fork = r->way == SNAPSHOT_FORK;
	t->snapshot_info.pause = r->pause_ns / 1e9;
	t->snapshot_info.lived = r->lived_ns / 1e9;
	t->snapshot_info.copied_bytes = r->copied_bytes;
	return err;
}

void memory_snapshot_drop(struct gospect_target *t)
{
	struct snapshot_result r = {0};

	if (t->snapshot)
		error_destroy(end(t, &r));
}

struct gospect_error *
gospect_target_end_memory_snapshot(struct gospect_target *t,
				   const struct gospect_memory_snapshot_info **ret)
{
	struct snapshot_result r = {0};
	struct error *err;

	if (ret)
		*ret = &t->snapshot_info;
	if (!t->snapshot)
		return NULL;
	err = end(t, &r);
	if (err)
		return error_out(err);
	if (!r.ended_early) {
		say_after(t, &r);
		return NULL;
	}
	return error_out(error_format(ERROR_FAILED,
				      "the snapshot of process %d was lost: %s; try again",
				      target_pid(t->target), r.why_ended));
}
