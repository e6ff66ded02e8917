#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/fill.h"
#include "cli/request.h"
#include "profile/profile.h"
#include "sample/wall.h"

/* Deeper stacks are cut: their innermost frames and their start function remain. */
#define STACK_LIMIT (256u << 10)
/* Of all different stacks together: 6 MB, which is 30,000 of 25 frames. */
#define MAX_STACK_WORDS (3u << 18)

enum { KEY_BUDGET = 0x5000, KEY_ON_CPU, KEY_OFF_CPU, KEY_RAW, KEY_ALL, KEY_KERNEL };

struct record_verb {
	struct request request;
	const struct profile_format *format;
	double hz;
	double duration;
	double budget; /* percent */
	bool on_cpu;
	bool off_cpu;
	bool raw;
	bool all;
	bool kernel;
};

static const struct argp_option options[] =
	{{"duration", 'd', "SECONDS", 0, "How long (until interrupted)", 4},
	 {"rate", 'r', "HZ", 0, "Ticks a second (100)", 4},
	 {"budget", KEY_BUDGET, "PERCENT", 0,
	  "How much of one core gospect may use, once it is set up (1); when not all goroutines "
	  "fit, a random part of them is looked at in each tick; 100 is no limit",
	  4},
	 {"on-cpu", KEY_ON_CPU, NULL, 0, "Only what runs", 4},
	 {"off-cpu", KEY_OFF_CPU, NULL, 0, "Only what does not run", 4},
	 {"raw", KEY_RAW, NULL, 0, "Addresses only, without functions and lines (pprof)", 4},
	 {"all", KEY_ALL, NULL, 0, "The runtime's own goroutines too", 4},
	 {"kernel", KEY_KERNEL, NULL, 0,
	  "The kernel's functions too, as name_[k], where what runs was in the kernel; needs "
	  "CAP_PERFMON and CAP_SYSLOG",
	  4},
	 {0}};

static error_t parse_number_option(const char *arg, double least, double most, double *ret,
				   struct argp_state *state, const char *what)
{
	if (!parse_number(arg, least, most, ret))
		return wrong_option(state, "'%s' is no %s (%g to %g)", arg, what, least, most);
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct record_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		return 0;
	case 'd':
		return parse_number_option(arg, 0.01, 1e7, &v->duration, state, "duration");
	case 'r':
		return parse_number_option(arg, 0.1, 10000, &v->hz, state, "rate");
	case KEY_BUDGET:
		return parse_number_option(arg, 0.01, 100, &v->budget, state, "budget");
	case KEY_ON_CPU:
		v->on_cpu = true;
		return 0;
	case KEY_OFF_CPU:
		v->off_cpu = true;
		return 0;
	case KEY_RAW:
		v->raw = true;
		return 0;
	case KEY_ALL:
		v->all = true;
		return 0;
	case KEY_KERNEL:
		v->kernel = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {options,
				 parse,
				 "-p PID\n-- COMMAND ARGS...",
				 "Records where every goroutine of a Go program spends its time, "
				 "running and waiting together, without stopping it.\vFormats: "
				 "pprof, folded, speedscope, html; by the file's name: .pb.gz "
				 ".pprof .folded .json .html.\n"
				 "\n"
				 "Example: gospect record -p 1234 -d 10 -o profile.html",
				 request_children,
				 NULL,
				 NULL};

static struct error *choose_format(struct record_verb *v)
{
	if (v->on_cpu && v->off_cpu)
		return error_format(ERROR_USAGE,
				    "record: --on-cpu and --off-cpu leave nothing together");
	if (v->kernel && v->off_cpu)
		return error_format(ERROR_USAGE,
				    "record: --kernel is for what runs; --off-cpu leaves that out");
	if (v->kernel && v->raw)
		return error_format(ERROR_USAGE,
				    "record: --raw leaves out names, and the kernel's addresses "
				    "mean nothing without; leave out --kernel");
	if (v->request.output.format)
		v->format = profile_format_named(v->request.output.format);
	else if (v->request.output.path && strcmp(v->request.output.path, "-"))
		v->format = profile_format_for_file(v->request.output.path);
	else
		v->format = &profile_format_folded;
	if (!v->format && v->request.output.format)
		return error_format(ERROR_USAGE,
				    "record: there is no format '%s'; there are pprof, folded, "
				    "speedscope and html",
				    v->request.output.format);
	if (!v->format)
		return error_format(ERROR_USAGE,
				    "record: cannot tell the format from the name %s; end it in "
				    ".pb.gz, .pprof, .folded, .json or .html, or give -f",
				    v->request.output.path);
	if (v->raw && v->format != &profile_format_pprof)
		return error_format(ERROR_USAGE, "record: --raw writes pprof; give -f pprof");
	if (v->format->binary && output_is_terminal(&v->request.output))
		return error_format(ERROR_USAGE, "record: %s is not for a terminal; give -o FILE",
				    v->format->name);
	return NULL;
}

static bool is_wanted(struct record_verb *v, const struct wall_bucket *b, struct goroutine_set *set,
		      const struct image *img)
{
	struct filter_subject subject = {b->status, b->wait_reason, b->stack, b->labels, 0};
	/* In C or in the kernel it runs as well. */
	bool runs = b->status == G_RUNNING || b->status == G_COPYSTACK ||
		    (b->status == G_SYSCALL && b->cpu_ns);

	if ((!b->count && !b->ns && !b->cpu_ns) || (v->on_cpu && !runs) || (v->off_cpu && runs))
		return false;
	return filter_matches(&v->request.filter, &subject, set, img);
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

static struct error *add_comments(struct profile *p, const struct record_verb *v,
				  const struct wall_result *r, struct goroutine_set *set)
{
	const struct goroutine_stats *stats = goroutine_set_stats(set);
	struct error *err;

	err = profile_add_comment(p, "gospect %s, wall clock of goroutines, %s", GOSPECT_VERSION,
				  p->go_version);
	if (!err)
		err = profile_add_comment(p, "rate: %.1f Hz achieved of %g, %lu ticks missed",
					  achieved_hz(r), v->hz, r->missed);
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
	if (!err)
		err = profile_add_comment(p,
					  "stacks: %lu read, %lu dropped as torn, %lu unknown, %lu "
					  "truncated",
					  stats->stacks, stats->torn, stats->unknown,
					  stats->truncated);
	if (!err && stacks_dropped(goroutine_set_stacks(set)))
		err = profile_add_comment(
			p,
			"[other stacks]: there are more different ones than are kept; %lu times one "
			"was seen that is not",
			stacks_dropped(goroutine_set_stacks(set)));
	if (!err && goroutine_set_labels(set)->dropped)
		err = profile_add_comment(p, "labels: too many different ones, %lu times not kept",
					  goroutine_set_labels(set)->dropped);
	if (!err && r->no_on_cpu)
		err = profile_add_comment(p, "on-CPU stacks: none, %s", r->no_on_cpu->message);
	if (!err && r->on_cpu.period_ns)
		err = profile_add_comment(
			p,
			"on-CPU stacks: %lu samples, %lu of no goroutine (scheduler), %lu unknown, "
			"%lu truncated, %lu lost%s",
			r->on_cpu.samples, r->on_cpu.scheduler, r->on_cpu.unknown,
			r->on_cpu.truncated, r->on_cpu.lost,
			r->on_cpu.sees_kernel ? "" : "; time in the kernel not seen");
	if (!err)
		err = profile_add_comment(p, "gospect used %.2f %% of one core",
					  100.0 * r->cpu_ns /
						  (r->duration_ns ? r->duration_ns : 1));
	return err;
}

static struct error *make_profile(struct record_verb *v, struct wall_sampler *sampler,
				  const struct subject *s, struct profile *p, uint64_t *ret_samples)
{
	const struct wall_result *r = wall_sampler_result(sampler);
	struct goroutine_set *set = wall_sampler_set(sampler);
	const struct wall_bucket *buckets;
	size_t count = wall_sampler_buckets(sampler, &buckets);
	struct error *err = NULL;

	for (size_t i = 0; !err && i < count; i++) {
		if (!is_wanted(v, &buckets[i], set, s->image))
			continue;
		*ret_samples += buckets[i].count;
		err = add_bucket(p, set, &buckets[i]);
	}
	p->time_ns = r->start_ns;
	p->duration_ns = r->duration_ns;
	p->period_ns = 1e9 / v->hz;
	return err ? err : add_comments(p, v, r, set);
}

static struct error *write_profile(struct record_verb *v, struct profile *p,
				   const struct code *code, struct outfile *out)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	struct error *err;

	if (v->raw)
		err = profile_symbolize(p, NULL, &symbols);
	else
		err = profile_symbolize_code(p, code, &symbols);
	if (!err)
		err = fill_modules(p, code->modules);
	if (!err)
		err = v->format->write(p, symbols, out->stream);
	return err ? err : outfile_commit(out);
}

static void say_summary(const struct record_verb *v, const struct wall_result *r,
			struct goroutine_set *set, uint64_t samples)
{
	const struct goroutine_stats *stats = goroutine_set_stats(set);
	double looks = looks_hz(r);
	bool named = v->request.output.path && strcmp(v->request.output.path, "-");

	if (r->no_on_cpu)
		say("stacks of what runs are not known: %s", r->no_on_cpu->message);
	if (r->on_cpu.threads_unseen)
		say("too many threads for the limit of open files: what %zu of them run is not "
		    "seen; raise it (ulimit -n)",
		    r->on_cpu.threads_unseen);
	if (r->on_cpu.lost)
		say("%lu samples of what runs were lost; a lower rate (-r) or a larger --budget "
		    "helps",
		    r->on_cpu.lost);
	if (r->ended)
		say("%s; what was seen until then is kept", r->ended->message);
	say("%.1f s, %.0f goroutines (each looked at %.1f times a second), %lu samples at %.1f Hz, "
	    "shares right within %.2g %%, %lu ticks missed, %lu reads dropped as torn, gospect "
	    "used %.1f %% of a core%s%s",
	    r->duration_ns / 1e9, r->goroutines, looks, samples, achieved_hz(r), 100 * r->error,
	    r->missed, stats->torn, 100.0 * r->cpu_ns / (r->duration_ns ? r->duration_ns : 1),
	    named ? " -> " : "", named ? v->request.output.path : "");
}

static void progress(void *arg, double seconds, uint64_t looks)
{
	const struct record_verb *v = arg;

	if (v->duration > 0)
		say_progress("%.0f of %g s, %lu looks at goroutines", seconds, v->duration, looks);
	else
		say_progress("%.0f s, %lu looks at goroutines; Ctrl-C ends it", seconds, looks);
}

/* Who asks for the kernel's functions is told at once that there are none. */
static struct error *open_kernel(struct wall_sampler *sampler, struct kernel_symbols **ret)
{
	const struct error *denied = wall_sampler_result(sampler)->no_on_cpu;

	if (denied)
		return error_format(denied->code, "%s", denied->message);
	return kernel_symbols_open(ret);
}

static struct error *record(struct record_verb *v, const struct subject *s, struct outfile *out)
{
	_cleanup_kernel_symbols_ struct kernel_symbols *kernel = NULL;
	_cleanup_wall_sampler_ struct wall_sampler *sampler = NULL;
	_cleanup_profile_ struct profile *p = profile_create();
	struct wall_options sample = {
		.hz = v->hz,
		.budget = v->budget >= 100 ? 0 : v->budget / 100,
		.duration = v->duration,
		.goid = v->request.filter.goid,
		.system = v->all,
		.stack_limit = STACK_LIMIT,
		.on_cpu = !v->off_cpu,
		.nobodys = v->on_cpu || v->all,
		.mark_system = v->on_cpu,
		.kernel = v->kernel,
		.stop = &stop_requested,
		.progress = progress,
		.arg = v,
	};
	struct error *err = p ? fill_process(p, s) : &error_no_memory;
	uint64_t samples = 0;
	struct code code;

	if (!err)
		err = wall_sampler_open(s->target, s->image, s->layout, &sample, &sampler);
	if (!err && v->kernel)
		err = open_kernel(sampler, &kernel);
	if (!err) {
		stacks_limit(goroutine_set_stacks(wall_sampler_set(sampler)), MAX_STACK_WORDS);
		err = wall_sampler_run(sampler);
	}
	say_progress(NULL);
	if (!err)
		err = make_profile(v, sampler, s, p, &samples);
	code = (struct code){&s->image->functions, NULL, kernel};
	if (!err) {
		code.modules = wall_sampler_modules(sampler);
		err = write_profile(v, p, &code, out);
	}
	if (!err)
		say_summary(v, wall_sampler_result(sampler), wall_sampler_set(sampler), samples);
	return err;
}

static struct error *run_record(struct record_verb *v, int *ret)
{
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_subject_ struct subject s = {0};
	struct error *err = subject_check(&v->request.subject, "record");

	if (!err)
		err = choose_format(v);

	/* Opened first: ten seconds of recording are not lost to a name that cannot be written. */
	if (!err)
		err = outfile_open(v->request.output.path ? v->request.output.path : "-", &out);
	if (err)
		return err;
	stop_on_signals();
	err = subject_open(&v->request.subject, &s);
	if (!err)
		err = record(v, &s, &out);
	if (s.child)
		*ret = subject_wait(&s);
	return err;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct record_verb v = {.hz = 100, .budget = 1};
	bool help;
	struct error *err = parse_options(&argp, "record", argc, argv, &v, &help);

	if (!err && !help)
		err = run_record(&v, ret);
	request_release(&v.request);
	return err;
}

const struct verb verb_record = {"record",
				 "a profile over time: all goroutines, running and waiting", run};
