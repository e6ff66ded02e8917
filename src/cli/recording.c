#include "cli/recording.h"

#include "cli/fill.h"
#include "cli/stop.h"
#include "cli/unwind_option.h"
#include "lib/process.h"
#include "oncpu/perf_events.h"

/* Deeper stacks are cut: their innermost frames and their start function remain. */
#define STACK_LIMIT (256u << 10)
/* Of all different stacks together: 6 MB, which is 30,000 of 25 frames. */
#define MAX_STACK_WORDS (3u << 18)

enum { KEY_BUDGET = 0x5100 };

static const struct argp_option options[] =
	{{"duration", 'd', "SECONDS", 0, "How long (until interrupted)", 4},
	 {"rate", 'r', "HZ", 0, "Ticks a second (100)", 4},
	 {"budget", KEY_BUDGET, "PERCENT", 0,
	  "How much of one core gospect may use, once it is set up (1); when not all goroutines "
	  "fit, a random part of them is looked at in each tick; 100 is no limit",
	  4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct recording_options *o = state->input;

	switch (key) {
	case 'd':
		return parse_number_option(arg, 0.01, 1e7, &o->duration, state, "duration");
	case 'r':
		return parse_number_option(arg, 0.1, 10000, &o->hz, state, "rate");
	case KEY_BUDGET:
		return parse_number_option(arg, 0.01, 100, &o->budget, state, "budget");
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp recording_argp = {.options = options, .parser = parse};

static void progress(void *arg, double seconds, uint64_t looks)
{
	const struct recording_options *o = arg;

	if (o->duration > 0)
		say_progress("%.0f of %g s, %lu looks at goroutines", seconds, o->duration, looks);
	else
		say_progress("%.0f s, %lu looks at goroutines; Ctrl-C ends it", seconds, looks);
}

/* Who asks for the kernel's functions is told at once that there are none. */
static struct error *open_kernel(struct recording *r)
{
	const struct error *denied = wall_sampler_result(r->sampler)->no_on_cpu;

	if (denied)
		return error_format(denied->code, "%s", denied->message);
	return kernel_symbols_open(&r->kernel);
}

/* Before it begins: whoever waits for it may want to change that. */
static void say_unseen(const struct wall_result *r)
{
	if (r->on_cpu.threads_unseen)
		say("too many threads for the limit of open files: what %zu of them run is not seen; "
		    "raise it (ulimit -n), up to %u",
		    r->on_cpu.threads_unseen, PERF_MOST_EVENTS);
}

struct error *recording_take(const struct recording_options *o, const struct subject *s,
			     struct recording *ret)
{
	struct wall_options sample = {
		.hz = o->hz,
		.budget = o->budget >= 100 ? 0 : o->budget / 100,
		.duration = o->duration,
		.goid = o->goid,
		.system = o->all,
		.stack_limit = STACK_LIMIT,
		.on_cpu = !o->off_cpu,
		.nobodys = o->on_cpu || o->all,
		.mark_system = o->on_cpu,
		.kernel = o->kernel,
		.run_queue = o->run_queue,
		.stop = cancel_flag(stop_cancel),
		.progress = progress,
		.arg = (void *)o,
	};
	struct error *err;

	ret->options = o;
	ret->subject = s;
	err = unwind_open(o->unwind, s->image, &ret->frames, &sample.unwind);
	if (!err)
		err = wall_sampler_open(s->target, s->image, s->layout, &sample, &ret->sampler);
	if (!err && o->kernel)
		err = open_kernel(ret);
	if (err)
		return err;
	say_unseen(wall_sampler_result(ret->sampler));
	stacks_limit(goroutine_set_stacks(wall_sampler_set(ret->sampler)), MAX_STACK_WORDS);
	err = wall_sampler_run(ret->sampler);
	say_progress(NULL);
	return err;
}

void recording_release(struct recording *r)
{
	wall_sampler_close(r->sampler);
	kernel_symbols_close(r->kernel);
	debug_frame_close(r->frames);
	*r = (struct recording){0};
}

bool recording_wants(const struct recording *r, struct filter *filter, const struct wall_bucket *b)
{
	struct filter_subject subject = {b->status, b->wait_reason, b->stack, b->labels, 0};
	/* In C or in the kernel it runs as well. */
	bool runs = b->status == G_RUNNING || b->status == G_COPYSTACK ||
		    (b->status == G_SYSCALL && b->cpu_ns);

	if ((!b->count && !b->ns && !b->cpu_ns) || (r->options->on_cpu && !runs) ||
	    (r->options->off_cpu && runs))
		return false;
	return filter_matches(filter, &subject, wall_sampler_set(r->sampler), r->subject->image);
}

static struct error *add_bucket(struct profile *p, struct goroutine_set *set,
				const struct wall_bucket *b)
{
	struct profile_sample sample = {
		.count = b->count,
		.wall_ns = b->ns,
		.cpu_ns = b->cpu_ns,
		.idle_count = b->idle_count,
		.idle_ns = b->idle_ns,
	};

	return fill_sample(p, set, b->stack, b->labels, b->status, b->wait_reason, &sample);
}

static double achieved_hz(const struct wall_result *r)
{
	return r->duration_ns ? r->ticks * 1e9 / r->duration_ns : 0;
}

/* How often a goroutine was looked at in a second. */
static double looks_hz(const struct wall_result *r)
{
	return r->duration_ns ? r->looks * 1e9 / r->duration_ns : 0;
}

static double percent_of_core(const struct wall_result *r)
{
	return 100.0 * r->cpu_ns / (r->duration_ns ? r->duration_ns : 1);
}

static struct error *comment_goroutines(struct profile *p, const struct recording *rec)
{
	const struct wall_result *r = wall_sampler_result(rec->sampler);
	struct error *err;

	err = profile_add_comment(p, "gospect %s, wall clock of goroutines, %s", GOSPECT_VERSION,
				  p->go_version);
	if (!err)
		err = profile_add_comment(p, "rate: %.1f Hz achieved of %g, %lu ticks missed",
					  achieved_hz(r), rec->options->hz, r->missed);
	if (!err)
		err = profile_add_comment(p,
					  "goroutines: %.0f seen, %.1f looked at in a tick, each "
					  "%.1f times a second",
					  r->goroutines, r->per_tick, looks_hz(r));
	if (!err)
		err = profile_add_comment(p,
					  "shares of all time are right within %.2g %%, 19 times "
					  "of 20",
					  100 * r->error);
	return err;
}

static struct error *comment_stacks(struct profile *p, struct goroutine_set *set, uint64_t crowded)
{
	const struct goroutine_stats *stats = goroutine_set_stats(set);
	uint64_t dropped = stacks_dropped(goroutine_set_stacks(set));
	uint64_t no_labels = goroutine_set_labels(set)->dropped;
	struct error *err;

	err = profile_add_comment(p,
				  "stacks: %lu read, %lu dropped as torn, %lu unknown, %lu "
				  "truncated",
				  stats->stacks, stats->torn, stats->unknown, stats->truncated);
	if (!err)
		err = fill_unwinding(p, set);
	if (!err && dropped)
		err = profile_add_comment(p,
					  "[other stacks]: there are more different ones than are "
					  "kept; %lu times one was seen that is not",
					  dropped);
	if (!err && crowded)
		err = profile_add_comment(
			p,
			"more different pairs of stack and labels than are kept: %lu "
			"times one counts without labels",
			crowded);
	if (!err && no_labels)
		err = profile_add_comment(p, "labels: too many different ones, %lu times not kept",
					  no_labels);
	return err;
}

static struct error *comment_on_cpu(struct profile *p, const struct wall_result *r)
{
	struct error *err = NULL;

	if (r->no_on_cpu)
		err = profile_add_comment(p, "on-CPU stacks: none, %s", r->no_on_cpu->message);
	if (!err && r->on_cpu.period_ns)
		err = profile_add_comment(
			p,
			"on-CPU stacks: %lu samples, %lu of no goroutine (scheduler), %lu unknown, "
			"%lu truncated, %lu lost, %lu with labels read later%s",
			r->on_cpu.samples, r->on_cpu.scheduler, r->on_cpu.unknown,
			r->on_cpu.truncated, r->on_cpu.lost, r->on_cpu.labels_late,
			r->on_cpu.sees_kernel ? "" : "; time in the kernel not seen");
	if (!err)
		err = profile_add_comment(p, "gospect used %.2f %% of one core",
					  percent_of_core(r));
	return err;
}

static struct error *add_comments(struct profile *p, const struct recording *r)
{
	struct error *err = comment_goroutines(p, r);

	if (!err)
		err = comment_stacks(p, wall_sampler_set(r->sampler),
				     wall_sampler_result(r->sampler)->crowded);
	return err ? err : comment_on_cpu(p, wall_sampler_result(r->sampler));
}

struct error *recording_fill(const struct recording *r, struct filter *filter, struct profile *p,
			     uint64_t *ret_samples)
{
	const struct wall_result *result = wall_sampler_result(r->sampler);
	const struct wall_bucket *buckets;
	size_t count = wall_sampler_buckets(r->sampler, &buckets);
	struct error *err = NULL;

	*ret_samples = 0;
	for (size_t i = 0; !err && i < count; i++) {
		if (!recording_wants(r, filter, &buckets[i]))
			continue;
		*ret_samples += buckets[i].count;
		err = add_bucket(p, wall_sampler_set(r->sampler), &buckets[i]);
	}
	p->time_ns = result->start_ns;
	p->duration_ns = result->duration_ns;
	p->period_ns = 1e9 / r->options->hz;
	return err ? err : add_comments(p, r);
}

struct code recording_code(const struct recording *r)
{
	return (struct code){&r->subject->image->functions, wall_sampler_modules(r->sampler),
			     r->kernel};
}

static void say_what_is_missing(const struct recording *rec)
{
	const struct recording_options *o = rec->options;
	const struct wall_result *r = wall_sampler_result(rec->sampler);

	if (r->no_on_cpu)
		say("stacks of what runs are not known: %s", r->no_on_cpu->message);
	if (r->crowded)
		say("the program has more different pairs of stack and labels than are kept: %lu times "
		    "one counts without labels",
		    r->crowded);
	if (r->on_cpu.crowded)
		say("%lu samples of what runs are left out: there are too many different stacks with "
		    "labels",
		    r->on_cpu.crowded);
	if (modules_left_out(wall_sampler_modules(rec->sampler)))
		say("C code in some mappings is not known: the program has mapped code at more than %u "
		    "places, one after the other",
		    MODULES_MOST);
	if (r->no_moments && r->on_cpu.labels_late)
		say("labels of what runs are read up to %.0f ms late, so CPU time of what is shorter may "
		    "have others: %s",
		    1e3 / o->hz, r->no_moments->message);
	if (o->run_queue && !r->no_on_cpu && !r->on_cpu.sees_waits)
		say("where threads wait for a processor is not known: that takes CAP_PERFMON (or "
		    "kernel.perf_event_paranoid below 2), two files (ulimit -n) for each thread on each "
		    "processor, and less than 10,000 switches a second");
	if (r->on_cpu.lost)
		say("%lu samples of what runs were lost; a lower rate (-r) or a larger --budget "
		    "helps",
		    r->on_cpu.lost);
	if (r->ended)
		say("%s; what was seen until then is kept", r->ended->message);
}

void recording_say(const struct recording *rec, uint64_t samples, const char *path)
{
	const struct wall_result *r = wall_sampler_result(rec->sampler);

	say_what_is_missing(rec);
	unwind_say(rec->options->unwind);
	say("%.1f s, %.0f goroutines (each looked at %.1f times a second), %lu samples at %.1f Hz, "
	    "shares right within %.2g %%, %lu ticks missed, %lu reads dropped as torn, gospect "
	    "used %.1f %% of a core%s%s",
	    r->duration_ns / 1e9, r->goroutines, looks_hz(r), samples, achieved_hz(r),
	    100 * r->error, r->missed, goroutine_set_stats(wall_sampler_set(rec->sampler))->torn,
	    percent_of_core(r), path ? " -> " : "", path ? path : "");
}
