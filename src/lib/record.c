/*
 * A recording: from options to the sampler's result, and on to a profile; or, as a stream, to the
 * profile of each interval. The profile states its precision; remarks say what it lacks.
 */
#include <gospect/profile.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "lib/error_api.h"
#include "lib/fill.h"
#include "lib/goroutine_filter.h"
#include "lib/heap.h"
#include "lib/options.h"
#include "lib/profile_handle.h"
#include "lib/recording_goroutines.h"
#include "lib/recording_times.h"
#include "lib/running_stacks.h"
#include "lib/segments.h"
#include "lib/target_handle.h"
#include "lib/unwind.h"
#include "oncpu/perf_events.h"
#include "sample/buckets.h"

/* Of a deeper stack, the innermost frames and the start function remain. */
#define STACK_LIMIT (256u << 10)
/* Many processes with such a recording run beside each other: none holds much memory. */
#define SEGMENTS_READ_BYTES (128u << 10)
/* All distinct stacks together: 6 MB, or 30,000 stacks of 25 frames. */
#define MAX_STACK_WORDS (3u << 18)

#define ALL_FLAGS                                                                      \
	(GOSPECT_RECORD_ON_CPU | GOSPECT_RECORD_OFF_CPU | GOSPECT_RECORD_SYSTEM |      \
	 GOSPECT_RECORD_KERNEL | GOSPECT_RECORD_RUN_QUEUE | GOSPECT_RECORD_ADDRESSES | \
	 GOSPECT_RECORD_GOROUTINES | GOSPECT_RECORD_NAMES | GOSPECT_RECORD_PATHS |     \
	 GOSPECT_RECORD_TRACE_IDS)

struct recording {
	struct gospect_target *target;
	struct gospect_record_options options;
	struct filter filter;
	struct wall_sampler *sampler;
	struct running_stacks running;
	struct kernel_symbols *kernel; /* NULL: not asked for */
	struct debug_frame *frames;    /* of options.unwind */
	struct recording_times times;
	struct recording_goroutines goroutines;
};

static void recording_release(struct recording *r)
{
	running_stacks_close(&r->running);
	wall_sampler_close(r->sampler);
	kernel_symbols_close(r->kernel);
	debug_frame_close(r->frames);
	recording_times_release(&r->times);
	recording_goroutines_release(&r->goroutines);
	filter_release(&r->filter);
}
#define _cleanup_recording_ _cleanup_(recording_release)

static bool has(const struct recording *r, uint32_t flag)
{
	return r->options.flags & flag;
}

static struct error *must_check check_flags(uint32_t flags)
{
	if (flags & ~(uint32_t)ALL_FLAGS)
		return error_format(ERROR_USAGE,
				    "invalid recording flags 0x%x; see enum gospect_record_flags",
				    flags);
	if (flags & GOSPECT_RECORD_OFF_CPU &&
	    flags & (GOSPECT_RECORD_ON_CPU | GOSPECT_RECORD_KERNEL | GOSPECT_RECORD_RUN_QUEUE))
		return error_format(ERROR_USAGE,
				    "GOSPECT_RECORD_OFF_CPU excludes GOSPECT_RECORD_ON_CPU, "
				    "GOSPECT_RECORD_KERNEL and GOSPECT_RECORD_RUN_QUEUE");
	if (flags & GOSPECT_RECORD_KERNEL && flags & GOSPECT_RECORD_ADDRESSES)
		return error_format(
			ERROR_USAGE,
			"GOSPECT_RECORD_KERNEL and GOSPECT_RECORD_ADDRESSES are mutually "
			"exclusive: kernel addresses cannot be symbolized later");
	return NULL;
}

static bool in_range(double value, double least, double most)
{
	return value >= least && value <= most;
}

static struct error *must_check take_options(const struct gospect_record_options *given,
					     struct recording *r)
{
	struct gospect_record_options *o = &r->options;
	struct error *err = options_take(given, o, sizeof(*o), "gospect_record_options");

	if (err)
		return err;
	o->rate = o->rate == 0 ? 100 : o->rate;
	o->budget = o->budget == 0 ? 1 : o->budget;
	if (!in_range(o->rate, 0.1, 10000) || !in_range(o->budget, 0.01, 100) ||
	    !in_range(o->duration, 0, 1e7))
		return error_format(
			ERROR_USAGE,
			"invalid recording: %g s at %g Hz with %g %% of a core; the limits are "
			"1e+07 s, 0.1 to 10000 Hz, 0.01 to 100 %%",
			o->duration, o->rate, o->budget);
	err = check_flags(o->flags);
	return err ? err : filter_init(&r->filter, o->filter);
}

/* Where the kernel denies it, running goroutines stay [running]. */
static void open_running(struct recording *r)
{
	struct gospect_target *t = r->target;
	const struct oncpu_options options = {
		.hz = r->options.rate,
		.goid = r->filter.want.goroutine,
		.no_goroutine = has(r, GOSPECT_RECORD_ON_CPU) || has(r, GOSPECT_RECORD_SYSTEM),
		.mark_system = has(r, GOSPECT_RECORD_ON_CPU),
		.kernel = has(r, GOSPECT_RECORD_KERNEL),
		.sample_program = true,
		.waits = has(r, GOSPECT_RECORD_RUN_QUEUE),
	};

	if (!has(r, GOSPECT_RECORD_OFF_CPU) && target_pid(t->target))
		running_stacks_open(&r->running, t->target, t->image, t->layout, &options,
				    r->sampler);
}

/* With --kernel, a missing permission is an error at the start. */
static struct error *must_check open_kernel(struct recording *r)
{
	const struct error *denied = r->running.denied;

	if (denied)
		return error_format(denied->code, "%s", denied->message);
	return kernel_symbols_open(&r->kernel);
}

/* Said before the recording begins: a caller that waits may want to raise the limit. */
static void remark_unseen(const struct recording *r)
{
	size_t unseen = running_stacks_stats(&r->running).threads_unseen;

	if (unseen)
		remark(&r->target->remark,
		       "too many open files: %zu threads are not sampled; raise the limit (ulimit "
		       "-n), up to %u",
		       unseen, PERF_MOST_EVENTS);
}

/* SEGMENTS go on without an end: what the first pass costs does not matter. */
enum recording_kind { ONE_PROFILE, STREAM, SEGMENTS };

static struct error *must_check open_recording(struct gospect_target *t,
					       const struct gospect_record_options *given,
					       enum recording_kind kind, struct recording *r)
{
	const struct gospect_record_options *o = &r->options;
	struct error *err = take_options(given, r);
	struct wall_options sample = {
		.hz = o->rate,
		.budget = o->budget >= 100 ? 0 : o->budget / 100,
		.duration = o->duration,
		.goid = r->filter.want.goroutine,
		.system = has(r, GOSPECT_RECORD_SYSTEM),
		.request_names = has(r, GOSPECT_RECORD_NAMES),
		.request_paths = has(r, GOSPECT_RECORD_PATHS),
		.request_ids = has(r, GOSPECT_RECORD_TRACE_IDS),
		.stack_limit = STACK_LIMIT,
		.held = t->is_held,
		.stop = t->cancel,
		.whole_first = kind == SEGMENTS,
		.sleeps_long = kind == SEGMENTS,
		.read_bytes = kind == SEGMENTS ? SEGMENTS_READ_BYTES : 0,
		.part = kind == ONE_PROFILE ? recording_times_take : NULL,
		.part_arg = &r->times,
		.stayed = o->flags & GOSPECT_RECORD_GOROUTINES ? recording_goroutines_take : NULL,
		.stayed_arg = &r->goroutines,
		.progress = o->progress,
		.arg = o->arg,
	};

	r->target = t;
	if (!err && target_core(t->target))
		err = error_format(ERROR_USAGE, "cannot record a core file; take a snapshot of it");
	if (!err)
		err = unwind_open(o->unwind, t->image, &r->frames, &sample.unwind);
	if (!err)
		err = wall_sampler_open(t->target, t->image, t->layout, &sample, &r->sampler);
	if (!err)
		open_running(r);
	if (!err && has(r, GOSPECT_RECORD_KERNEL))
		err = open_kernel(r);
	if (err)
		return err;
	remark_unseen(r);
	stacks_limit(goroutine_set_stacks(wall_sampler_set(r->sampler)), MAX_STACK_WORDS);
	return NULL;
}

/* Whether options and filter keep the bucket, and it has samples. */
static bool is_wanted(struct recording *r, const struct wall_bucket *b)
{
	struct filter_subject subject = {b->status, b->wait_reason, b->stack, b->labels, 0};
	/* A goroutine also runs in C or in the kernel. */
	bool runs = b->status == G_RUNNING || b->status == G_COPYSTACK ||
		    (b->status == G_SYSCALL && b->cpu_ns);

	if ((!b->count && !b->ns && !b->cpu_ns) || (has(r, GOSPECT_RECORD_ON_CPU) && !runs) ||
	    (has(r, GOSPECT_RECORD_OFF_CPU) && runs))
		return false;
	return filter_matches(&r->filter, &subject, wall_sampler_set(r->sampler), r->target->image);
}

/* places[i] becomes the place of bucket i in the profile's samples, or TIMELINE_NO_ROW. */
static struct error *must_check add_buckets(struct recording *r, const struct wall_bucket *buckets,
					    size_t count, struct profile *p, uint32_t *places)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count; i++) {
		const struct wall_bucket *b = &buckets[i];
		uint32_t place = TIMELINE_NO_ROW;
		struct profile_sample sample = {
			.count = b->count,
			.wall_ns = b->ns,
			.cpu_ns = b->cpu_ns,
			.idle_count = b->idle_count,
			.idle_ns = b->idle_ns,
			.longest_ns = b->longest_ns,
			.longest_goroutine = b->longest_goroutine,
		};

		if (is_wanted(r, b))
			err = fill_sample(p, wall_sampler_set(r->sampler), b->stack, b->labels,
					  b->status, b->wait_reason, &sample, &place);
		if (places)
			places[i] = place;
	}
	return err;
}

static struct error *must_check symbolize(const struct recording *r, const struct profile *p,
					  struct profile_symbols **ret)
{
	struct code code = {&r->target->image->functions, running_stacks_modules(&r->running),
			    r->kernel};

	return has(r, GOSPECT_RECORD_ADDRESSES) ? profile_symbolize(p, NULL, ret)
						: profile_symbolize_code(p, &code, NULL, ret);
}

/* Adds gospect's own comments to the result. */
static void describe(const struct recording *rec, struct gospect_profile_info *info)
{
	const struct wall_result *r = wall_sampler_result(rec->sampler);
	double seconds = r->duration_ns / 1e9;

	info->is_recording = 1;
	info->ticks = r->ticks;
	info->missed = r->missed;
	info->torn = goroutine_set_stats(wall_sampler_set(rec->sampler))->torn;
	info->rate = seconds > 0 ? r->ticks / seconds : 0;
	info->goroutines = r->goroutines;
	/* How often a goroutine was looked at in a second. */
	info->looks = seconds > 0 ? r->looks / seconds : 0;
	info->error = r->error;
	info->cpu_percent = 100.0 * r->cpu_ns / (r->duration_ns ? r->duration_ns : 1);
}

/* Three comments, which tools show above their tables: what made the profile, how exact it is, and
 * what it covers. */
static struct error *must_check comment_goroutines(struct profile *p, const struct recording *rec,
						   const struct gospect_profile_info *info)
{
	double sampled = info->rate > 0 ? info->looks * info->goroutines / info->rate : 0;
	struct error *err;

	err = profile_add_comment(p,
				  "gospect %s, wall clock of goroutines, %s; gospect used %.2f %% "
				  "of one core",
				  GOSPECT_VERSION, p->go_version, info->cpu_percent);
	if (!err)
		err = profile_add_comment(
			p,
			"rate: %.1f Hz achieved of %g, %lu ticks missed; goroutines: %.0f seen, "
			"%.1f sampled in a tick, each %.1f times a second; shares are accurate to "
			"±%.2g points (95 %% confidence)",
			info->rate, rec->options.rate, info->missed, info->goroutines,
			sampled < info->goroutines ? sampled : info->goroutines, info->looks,
			100 * info->error);
	return err;
}

static void describe_on_cpu(const struct running_stacks *r, struct strbuf *sb)
{
	struct oncpu_stats stats = running_stacks_stats(r);

	if (r->denied)
		strbuf_addf(sb, "; on-CPU stacks: none, %s", r->denied->message);
	if (stats.period_ns)
		strbuf_addf(sb,
			    "; on-CPU stacks: %lu samples, %lu outside goroutines (scheduler), %lu "
			    "unknown, %lu truncated, %lu lost, %lu with labels read late%s",
			    stats.samples, stats.scheduler, stats.unknown, stats.truncated,
			    stats.lost, stats.labels_late,
			    stats.sees_kernel ? "" : ", without time in the kernel");
}

static struct error *must_check comment_stacks(struct profile *p, const struct recording *r)
{
	struct goroutine_set *set = wall_sampler_set(r->sampler);
	const struct goroutine_stats *stats = goroutine_set_stats(set);
	enum unwind_method method = stacks_unwinding(goroutine_set_stacks(set))->method;
	_cleanup_strbuf_ struct strbuf on_cpu = STRBUF_INIT;

	describe_on_cpu(&r->running, &on_cpu);
	return profile_add_comment(
		p,
		"stacks: %lu read, %lu dropped as torn, %lu unknown, %lu truncated, unwound %s, "
		"%.1f headers read in a tick%s",
		stats->stacks, stats->torn, stats->unknown, stats->truncated,
		unwind_method_words(method), wall_sampler_result(r->sampler)->per_tick,
		on_cpu.data);
}

/* Remarks on samples that exceed the limits. */
static struct error *must_check comment_limits(struct profile *p, struct goroutine_set *set,
					       uint64_t crowded)
{
	uint64_t dropped = stacks_dropped(goroutine_set_stacks(set));
	uint64_t no_labels = goroutine_set_labels(set)->dropped;
	struct error *err = NULL;

	if (dropped)
		err = profile_add_comment(
			p,
			"[other stacks]: the limit of distinct stacks was reached; %lu samples "
			"have this stack instead of their own",
			dropped);
	if (!err && crowded)
		err = profile_add_comment(
			p,
			"the limit of distinct pairs of stack and labels was reached; %lu samples "
			"have lost their labels",
			crowded);
	if (!err && no_labels)
		err = profile_add_comment(
			p,
			"labels: the limit of distinct label sets was reached; %lu samples have "
			"lost their labels",
			no_labels);
	return err;
}

/* Notes the filter, so that readers know what the profile leaves out. */
static void describe_filter(const struct recording *r, struct strbuf *sb)
{
	if (has(r, GOSPECT_RECORD_ON_CPU))
		strbuf_adds(sb, " --on-cpu");
	if (has(r, GOSPECT_RECORD_OFF_CPU))
		strbuf_adds(sb, " --off-cpu");
	filter_words(&r->filter, sb);
}

static struct error *must_check comment_filter(struct profile *p, const struct recording *r)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	describe_filter(r, &sb);
	if (sb.failed)
		return &error_no_memory;
	return sb.length ? profile_add_comment(p, "filter:%s", sb.data) : NULL;
}

static struct error *must_check add_comments(struct profile *p, const struct recording *r,
					     const struct gospect_profile_info *info)
{
	const struct wall_result *result = wall_sampler_result(r->sampler);
	struct goroutine_set *set = wall_sampler_set(r->sampler);
	struct error *err = comment_goroutines(p, r, info);

	if (!err)
		err = comment_stacks(p, r);
	if (!err)
		err = comment_filter(p, r);
	return err ? err : comment_limits(p, set, result->crowded);
}

static void remark_missing(const struct recording *rec)
{
	const struct wall_result *r = wall_sampler_result(rec->sampler);
	const struct error *late = running_stacks_labels_late(&rec->running);
	const struct error *denied = rec->running.denied;
	struct oncpu_stats on_cpu = running_stacks_stats(&rec->running);
	const struct remark *to = &rec->target->remark;

	if (denied)
		remark(to, "no on-CPU stacks: %s", denied->message);
	if (r->crowded)
		remark(to,
		       "the limit of distinct pairs of stack and labels is reached: %lu samples "
		       "have lost their labels",
		       r->crowded);
	if (on_cpu.crowded)
		remark(to,
		       "the limit of distinct stacks with labels is reached: %lu on-CPU samples "
		       "are left out",
		       on_cpu.crowded);
	if (modules_left_out(running_stacks_modules(&rec->running)))
		remark(to,
		       "some C frames are unknown: the program mapped code at more than %u "
		       "addresses",
		       MODULES_MOST);
	if (late && on_cpu.labels_late)
		remark(to,
		       "labels of running goroutines are read up to %.0f ms late, so shorter CPU bursts may get wrong labels: %s",
		       1e3 / rec->options.rate, late->message);
	if (has(rec, GOSPECT_RECORD_RUN_QUEUE) && !denied && !on_cpu.sees_waits)
		remark(to,
		       "--run-queue had no effect; it needs CAP_PERFMON or kernel.perf_event_paranoid below 2; two open files (ulimit -n) for each thread and CPU; fewer than 10,000 context switches a second");
	if (on_cpu.lost)
		remark(to, "%lu on-CPU samples were lost; lower the rate (-r) or raise --budget",
		       on_cpu.lost);
	if (r->ended)
		remark(to, "%s; the recording until then is kept", r->ended->message);
}

/* Says why the recording has no samples. */
static void remark_empty(const struct recording *rec)
{
	_cleanup_strbuf_ struct strbuf filter = STRBUF_INIT;
	const struct wall_result *r = wall_sampler_result(rec->sampler);
	const struct remark *to = &rec->target->remark;

	describe_filter(rec, &filter);
	if (!r->ticks && r->ended)
		remark(to, "no samples: the program ended before the first look at it; start it "
			   "with gospect record -- COMMAND");
	else if (!r->ticks)
		remark(to, "no samples: the recording ended before the first look; record for "
			   "longer (-d), or raise the rate (-r)");
	else if (filter.length)
		remark(to,
		       "no samples: none of %.0f goroutines matches%s; record without it to see "
		       "what there is",
		       r->goroutines, filter.data);
	else
		remark(to, "no samples: the program has no goroutines of its own; record with "
			   "--runtime, or for longer (-d)");
}

static struct error *must_check make_profile(struct recording *r, struct gospect_profile *p)
{
	const struct wall_result *result = wall_sampler_result(r->sampler);
	struct profile *inner = p->profile;
	const struct wall_bucket *buckets;
	size_t count = wall_sampler_buckets(r->sampler, &buckets);
	_cleanup_free_ uint32_t *places = calloc(count + 1, sizeof(*places));
	struct error *err =
		places ? add_buckets(r, buckets, count, inner, places) : &error_no_memory;

	if (!err)
		err = recording_times_give(&r->times, r->sampler, places, inner);

	inner->time_ns = result->start_ns;
	inner->duration_ns = result->duration_ns;
	inner->period_ns = 1e9 / r->options.rate;
	describe(r, &p->info);
	if (!err)
		err = add_comments(inner, r, &p->info);
	if (!err)
		err = symbolize(r, inner, &p->symbols);
	if (!err)
		err = fill_modules(inner, running_stacks_modules(&r->running));
	if (!err && has(r, GOSPECT_RECORD_GOROUTINES))
		err = recording_goroutines_give(&r->goroutines, r->sampler, places, inner,
						p->symbols);
	profile_describe(p, !has(r, GOSPECT_RECORD_ADDRESSES));
	return err;
}

struct gospect_error *gospect_record(struct gospect_target *t,
				     const struct gospect_record_options *given,
				     struct gospect_profile **ret)
{
	_cleanup_profile_handle_ struct gospect_profile *p = profile_new();
	_cleanup_recording_ struct recording r = {0};
	struct error *err = p ? open_recording(t, given, ONE_PROFILE, &r) : &error_no_memory;

	/* The target may have ended by the recording's end. */
	if (!err)
		err = fill_process(p->profile, t);
	if (!err)
		target_remark_stopped(t);
	if (!err)
		err = wall_sampler_run(r.sampler);
	if (!err)
		err = make_profile(&r, p);
	if (err)
		return error_out(err);
	remark_missing(&r);
	if (!p->profile->count)
		remark_empty(&r);
	unwind_remark(&t->remark, r.options.unwind);
	*ret = take_ptr(p);
	return NULL;
}

/* The receiver of the samples of a stream. */
struct stream {
	int (*sample)(void *arg, const struct gospect_sample *sample);
	void *arg;
	bool ended; /* it has asked to stop */
};

static struct error *must_check hand_over(struct stream *stream, const struct profile *p,
					  const struct profile_symbols *symbols)
{
	struct arena arena = {0};
	bool failed = false;

	for (size_t i = 0; !failed && !stream->ended && i < p->count; i++) {
		struct gospect_sample sample;

		failed = !profile_give_sample(p, symbols, &p->samples[i], &arena, &sample);
		if (!failed)
			stream->ended = stream->sample(stream->arg, &sample);
	}
	arena_release(&arena);
	return failed ? &error_no_memory : NULL;
}

/* Hands over the samples since the last interval. The receiver's CPU time is not charged to the
 * recording. */
static struct error *must_check take_interval(struct recording *r, struct stream *stream)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_profile_ struct profile *p = profile_create();
	struct wall_interval interval;
	struct error *err = p ? wall_sampler_interval(r->sampler, &interval) : &error_no_memory;

	if (!err)
		err = add_buckets(r, interval.buckets, interval.count, p, NULL);
	if (!err)
		err = symbolize(r, p, &symbols);
	wall_sampler_pause(r->sampler);
	return err ? err : hand_over(stream, p, symbols);
}

static struct error *must_check run_stream(struct recording *r, uint64_t interval_ns,
					   struct stream *stream)
{
	uint64_t due = clock_now() + interval_ns;
	struct error *err;
	bool more = true;

	err = wall_sampler_begin(r->sampler);
	while (!err && more && !stream->ended) {
		err = wall_sampler_step(r->sampler, &more);
		if (!err && (clock_now() >= due || !more)) {
			err = take_interval(r, stream);
			due += interval_ns;
		}
	}
	wall_sampler_pause(r->sampler);
	return err;
}

struct gospect_error *
gospect_record_stream(struct gospect_target *t, const struct gospect_record_options *given,
		      double interval,
		      int (*sample)(void *arg, const struct gospect_sample *sample), void *arg)
{
	_cleanup_recording_ struct recording r = {0};
	struct stream stream = {sample, arg, false};
	struct error *err = open_recording(t, given, STREAM, &r), *last = NULL;

	if (!err && !in_range(interval, 0, 1e7))
		err = error_format(ERROR_USAGE, "invalid interval %g s; the range is 0 to 1e+07",
				   interval);
	if (!err)
		err = run_stream(&r, (interval == 0 ? 1 : interval) * 1e9, &stream);
	if (!err || err->code != ERROR_GONE || !r.sampler)
		return error_out(err);
	/* The target has ended: the profile covers the time until then. */
	remark(&t->remark, "%s; the recording until then is kept", err->message);
	error_destroy(err);
	last = take_interval(&r, &stream);
	return error_out(last);
}

/* ---- in segments ---- */

/* Goroutines that stand at one place, with the same labels. */
struct crowd {
	uint32_t stack, labels;
	uint64_t count;
};

struct crowds {
	struct crowd *items;
	size_t count, capacity;
	struct map places; /* stack << 32 | labels -> place + 1 */
};

static void crowds_release(struct crowds *c)
{
	free(c->items);
	map_release(&c->places);
}

static bool crowds_add(struct crowds *c, const struct goroutine_record *g)
{
	uint64_t *place = map_at(&c->places, (uint64_t)g->stack << 32 | g->labels);

	if (!place || !array_reserve(&c->items, &c->capacity, c->count + 1))
		return false;
	if (!*place) {
		c->items[c->count] = (struct crowd){g->stack, g->labels, 0};
		*place = ++c->count;
	}
	c->items[*place - 1].count++;
	return true;
}

/* The goroutines as the last pass saw them. */
static struct error *must_check count_goroutines(struct recording *r, struct profile *p)
{
	_cleanup_(crowds_release) struct crowds c = {0};
	struct goroutine_set *set = wall_sampler_set(r->sampler);
	const struct goroutine_record *records = goroutine_set_records(set);
	struct error *err = NULL;

	for (size_t i = 0; i < goroutine_set_count(set); i++)
		if (wall_sampler_counts(&records[i]) && !crowds_add(&c, &records[i]))
			return &error_no_memory;
	for (size_t i = 0; !err && i < c.count; i++) {
		struct profile_sample sample = {.count = c.items[i].count};

		err = fill_sample(p, set, c.items[i].stack, c.items[i].labels, G_RUNNING, 0,
				  &sample, NULL);
	}
	return err ? err : heap_finish_counts(p, "goroutine");
}

struct segment_run {
	struct recording *r;
	struct segments *to;
	uint64_t begin_ns; /* of the segment, since 1970 */
	bool ended;        /* take() has asked to stop */
};

static struct error *must_check new_profile(const struct segment_run *run, uint64_t duration_ns,
					    struct gospect_profile **ret)
{
	_cleanup_profile_handle_ struct gospect_profile *p = profile_new();
	struct error *err = p ? fill_process(p->profile, run->r->target) : &error_no_memory;

	/* The target may have ended. Then the profile has no mappings. */
	if (err && err->code != ERROR_NO_MEMORY)
		error_destroy(take_ptr(err));
	if (err)
		return err;
	p->profile->time_ns = run->begin_ns;
	p->profile->duration_ns = duration_ns;
	p->profile->period_ns = 1e9 / run->r->options.rate;
	*ret = take_ptr(p);
	return NULL;
}

static struct error *must_check complete(struct recording *r, struct gospect_profile *p)
{
	struct error *err = symbolize(r, p->profile, &p->symbols);

	if (!err)
		err = fill_modules(p->profile, running_stacks_modules(&r->running));
	profile_describe(p, true);
	return err;
}

static struct error *must_check take_segment(struct segment_run *run)
{
	_cleanup_profile_handle_ struct gospect_profile *wall = NULL, *goroutines = NULL;
	struct recording *r = run->r;
	const struct wall_bucket *buckets;
	struct wall_interval interval;
	struct error *err = wall_sampler_interval(r->sampler, &interval);

	if (err || !interval.ns)
		return err;
	err = new_profile(run, interval.ns, &wall);
	if (!err)
		err = new_profile(run, 0, &goroutines);
	if (!err)
		err = add_buckets(r, interval.buckets, interval.count, wall->profile, NULL);
	if (!err)
		err = count_goroutines(r, goroutines->profile);
	if (!err)
		err = complete(r, wall);
	if (!err)
		err = complete(r, goroutines);
	if (err)
		return err;
	run->to->is_full =
		goroutine_set_labels(wall_sampler_set(r->sampler))->count > LABELS_MAX_SETS / 2 ||
		wall_sampler_buckets(r->sampler, &buckets) > BUCKETS_MOST / 2;
	run->begin_ns += interval.ns;
	goroutines->profile->time_ns = run->begin_ns;
	wall_sampler_pause(r->sampler);
	run->ended = run->to->take(run->to, wall, goroutines);
	if (run->to->budget > 0 && r->options.budget < 100)
		wall_sampler_set_budget(r->sampler, run->to->budget / 100);
	if (run->to->rate > 0 && r->options.budget >= 100) {
		r->options.rate = run->to->rate;
		wall_sampler_set_rate(r->sampler, run->to->rate);
	}
	return NULL;
}

static struct error *must_check run_segments(struct segment_run *run)
{
	struct wall_sampler *sampler = run->r->sampler;
	uint64_t due = clock_now() + run->to->interval * 1e9;
	struct error *err = wall_sampler_begin(sampler);
	bool more = true;

	run->begin_ns = clock_read(CLOCK_REALTIME);
	while (!err && more && !run->ended) {
		err = wall_sampler_step(sampler, &more);
		if (!err && (clock_now() >= due || !more)) {
			err = take_segment(run);
			due = clock_now() + run->to->interval * 1e9;
		}
	}
	wall_sampler_pause(sampler);
	return err;
}

struct error *segments_record(struct gospect_target *t, const struct gospect_record_options *given,
			      struct segments *segments)
{
	_cleanup_recording_ struct recording r = {0};
	struct segment_run run = {.r = &r, .to = segments};
	struct error *err = open_recording(t, given, SEGMENTS, &r);

	if (!err && r.running.denied)
		remark(&t->remark, "no on-CPU stacks: %s", r.running.denied->message);
	if (!err)
		err = run_segments(&run);
	if (!err || err->code != ERROR_GONE || !r.sampler)
		return err;
	error_destroy(err);
	return take_segment(&run);
}
