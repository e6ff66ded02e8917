#include <string.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/duration.h"
#include "cli/format_names.h"
#include "cli/no_match.h"
#include "cli/record_every.h"
#include "cli/record_many.h"
#include "cli/record_page.h"
#include "cli/record_targets.h"
#include "cli/recording.h"
#include "cli/source_option.h"
#include "cli/stop.h"
#include "cli/unwind_option.h"

enum {
	KEY_ON_CPU = 0x5000,
	KEY_OFF_CPU,
	KEY_RAW,
	KEY_RUNTIME,
	KEY_KERNEL,
	KEY_RUN_QUEUE,
	KEY_HOST,
	KEY_CHILDREN,
	KEY_FOLLOW,
	KEY_EVERY,
	KEY_KEEP,
	KEY_NO_NAMES,
	KEY_PATHS,
	KEY_TRACE_IDS
};

struct record_verb {
	struct common_options request;
	struct gospect_record_options recording;
	enum gospect_format format;
	struct record_every every;
	const char *source; /* of --source; NULL: none */
	bool answers;       /* at a terminal: it prints what stands out */
};

static const struct argp_option options[] =
	{{"host", KEY_HOST, NULL, 0,
	  "Look at every Go process of this machine; several -p record several", 1},
	 {"children", KEY_CHILDREN, NULL, 0,
	  "Record the target, and the Go programs that it starts", 1},
	 {"follow", KEY_FOLLOW, "NAME", 0,
	  "Record every process of this name, also those that start later, as after a restart", 1},
	 {"every", KEY_EVERY, "DURATION", 0,
	  "Write a file each DURATION; FILE.pb.gz is named FILE-YYYYmmdd-HHMMSS.pb.gz", 4},
	 {"keep", KEY_KEEP, "N", 0, "With --every: remove the oldest of more than N files", 4},
	 {"on-cpu", KEY_ON_CPU, NULL, 0, "Record only running goroutines", 4},
	 {"off-cpu", KEY_OFF_CPU, NULL, 0, "Record only goroutines that are not running", 4},
	 {"raw", KEY_RAW, NULL, 0,
	  "Write addresses only (pprof); gospect symbolize adds functions and lines", 4},
	 {"runtime", KEY_RUNTIME, NULL, 0, "Show the runtime's own goroutines too", 4},
	 {"all", 0, NULL, OPTION_ALIAS, NULL, 4},
	 {"kernel", KEY_KERNEL, NULL, 0,
	  "Show kernel functions too, as name_[k]; needs CAP_PERFMON and CAP_SYSLOG", 4},
	 {"run-queue", KEY_RUN_QUEUE, NULL, 0,
	  "Record where threads wait for a CPU too. The split by function becomes exact on a "
	  "saturated machine. Costs the target up to 1 us a context switch. Needs CAP_PERFMON",
	  4},
	 {"no-names", KEY_NO_NAMES, NULL, 0,
	  "Do not label goroutines with the method and route of their request", 4},
	 {"paths", KEY_PATHS, NULL, 0, "Label goroutines with the path of their request too", 4},
	 {"trace-ids", KEY_TRACE_IDS, NULL, 0,
	  "Label goroutines with the ids of their request's traceparent too: trace_id and span_id",
	  4},
	 {0}};

static error_t parse_follow(const char *arg, const char **ret, struct argp_state *state)
{
	unsigned long pid;

	if (parse_id(arg, &pid) || !*arg)
		return wrong_option(state, "--follow needs a name, not '%s'; use -p PID", arg);
	*ret = arg;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct record_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->recording;
		state->child_inputs[2] = &v->recording.unwind;
		state->child_inputs[3] = &v->source;
		return 0;
	case KEY_ON_CPU:
		v->recording.flags |= GOSPECT_RECORD_ON_CPU;
		return 0;
	case KEY_OFF_CPU:
		v->recording.flags |= GOSPECT_RECORD_OFF_CPU;
		return 0;
	case KEY_HOST:
		v->request.target.host = true;
		return 0;
	case KEY_CHILDREN:
		v->request.target.children = true;
		return 0;
	case KEY_FOLLOW:
		return parse_follow(arg, &v->request.target.follow, state);
	case KEY_EVERY:
		return parse_duration_option(arg, 1, 1e7, &v->every.seconds, state);
	case KEY_KEEP:
		return parse_number_option(arg, 1, 1e6, &v->every.keep, state, "number of files");
	case KEY_RAW:
		v->recording.flags |= GOSPECT_RECORD_ADDRESSES;
		return 0;
	case KEY_RUNTIME:
		v->recording.flags |= GOSPECT_RECORD_SYSTEM;
		return 0;
	case KEY_RUN_QUEUE:
		v->recording.flags |= GOSPECT_RECORD_RUN_QUEUE;
		return 0;
	case KEY_KERNEL:
		v->recording.flags |= GOSPECT_RECORD_KERNEL;
		return 0;
	case KEY_NO_NAMES:
		v->recording.flags &= ~(uint32_t)GOSPECT_RECORD_NAMES;
		return 0;
	case KEY_PATHS:
		v->recording.flags |= GOSPECT_RECORD_PATHS;
		return 0;
	case KEY_TRACE_IDS:
		v->recording.flags |= GOSPECT_RECORD_TRACE_IDS;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&common_options_argp, 0, NULL, 0},
					     {&recording_argp, 0, NULL, 0},
					     {&unwind_argp, 0, NULL, 0},
					     {&source_argp, 0, NULL, 0},
					     {0}};

static const struct argp argp = {
	options,
	parse,
	"PID|NAME...\n--host\n--follow NAME\n-- COMMAND ARGS...",
	"Records a profile of where every goroutine of a Go program spends "
	"its time, running and waiting. It does not stop the program.\v"
	"Formats: pprof (.pb.gz, .pprof), folded (.folded), folded-state, speedscope "
	"(.json), firefox (.firefox.json), html (.html). At a terminal, without -o and -f, record writes NAME-PID.html and "
	"prints what stands out.\n"
	"\n"
	"Examples:\n"
	"  gospect record -p server -d 10s -o profile.html\n"
	"  gospect record -p server --every 1m --keep 60 -o server.pb.gz",
	children,
	NULL,
	NULL};

static bool has(const struct record_verb *v, uint32_t flag)
{
	return v->recording.flags & flag;
}

static struct error *check_flags(const struct record_verb *v)
{
	bool off_cpu = has(v, GOSPECT_RECORD_OFF_CPU);

	if (off_cpu && has(v, GOSPECT_RECORD_ON_CPU))
		return error_format(ERROR_USAGE,
				    "record: --on-cpu and --off-cpu are mutually exclusive");
	if (off_cpu && has(v, GOSPECT_RECORD_KERNEL))
		return error_format(ERROR_USAGE,
				    "record: --kernel and --off-cpu are mutually exclusive");
	if (off_cpu && has(v, GOSPECT_RECORD_RUN_QUEUE))
		return error_format(ERROR_USAGE,
				    "record: --run-queue and --off-cpu are mutually exclusive");
	if (has(v, GOSPECT_RECORD_KERNEL) && has(v, GOSPECT_RECORD_ADDRESSES))
		return error_format(
			ERROR_USAGE,
			"record: --raw and --kernel are mutually exclusive: kernel addresses "
			"cannot be symbolized later");
	if (has(v, GOSPECT_RECORD_ADDRESSES) && record_targets_are_many(&v->request.target))
		return error_format(ERROR_USAGE,
				    "record: --raw is for one process; use one -p PID");
	return NULL;
}

static bool is_profiles(enum gospect_format format)
{
	return format && format != GOSPECT_TEXT && format != GOSPECT_JSON;
}

static struct error *choose_format(struct record_verb *v)
{
	const struct output_options *o = &v->request.output;
	struct error *err = check_flags(v);

	if (err)
		return err;
	if (o->format)
		v->format = format_named(o->format);
	else if (o->path && strcmp(o->path, "-"))
		v->format = format_for_profile(o->path);
	else
		v->format = GOSPECT_FOLDED;
	if (!is_profiles(v->format) && o->format)
		return error_format(
			ERROR_USAGE,
			"record: unknown format '%s'; use pprof, folded, folded-state, speedscope, firefox or html",
			o->format);
	if (!v->format)
		return error_format(
			ERROR_USAGE,
			"record: unknown file extension of %s; use .pb.gz, .pprof, .folded, "
			".firefox.json, .json or .html, or -f FORMAT",
			o->path);
	if (has(v, GOSPECT_RECORD_ADDRESSES) && v->format != GOSPECT_PPROF)
		return error_format(ERROR_USAGE, "record: --raw supports pprof only; use -f pprof");
	return output_check(o, "record", v->format);
}

/* At a terminal, without -o and -f: writes a page, and prints what stands out. */
static struct error *choose_page(struct record_verb *v, char **ret_path)
{
	struct output_options *o = &v->request.output;
	struct error *err;

	if (o->path || o->format || has(v, GOSPECT_RECORD_ADDRESSES) || !output_is_terminal(o))
		return NULL;
	err = record_targets_settle(&v->request.target);
	if (!err)
		err = record_page_name(&v->request.target, ret_path);
	o->path = *ret_path;
	v->answers = true;
	return err;
}

static void drop_profile(struct gospect_profile **p)
{
	gospect_profile_destroy(*p);
}

static struct error *must_check write_profile(struct record_verb *v, struct gospect_profile *p,
					      struct outfile *out)
{
	struct error *err = source_add(v->source, p);

	if (!err)
		err = library_error(gospect_profile_write(p, v->format, output_sink(out)));
	if (!err)
		err = outfile_commit(out);
	if (!err && v->answers)
		err = record_page_say(p, v->request.output.path);
	return err;
}

/* The output's name in the summary. */
static const char *written_to(const struct record_verb *v)
{
	const char *path = v->request.output.path;

	return path && strcmp(path, "-") ? path : NULL;
}

static struct error *record(struct record_verb *v, struct cli_target *s, struct outfile *out)
{
	_cleanup_(drop_profile) struct gospect_profile *p = NULL;
	struct error *err;

	if (v->format == GOSPECT_HTML)
		v->recording.flags |= GOSPECT_RECORD_GOROUTINES;
	err = recording_take(s, &v->recording, &p);
	if (!err)
		err = write_profile(v, p, out);
	if (!err)
		recording_say(p, &v->recording, written_to(v));
	if (!err && !gospect_profile_info(p)->samples && filter_is_set(&v->request.filter))
		err = no_match(s->handle, &v->request.filter, has(v, GOSPECT_RECORD_SYSTEM));
	return err;
}

static struct error *record_several(struct record_verb *v, struct outfile *out, int *ret)
{
	_cleanup_(drop_profile) struct gospect_profile *p = NULL;
	struct many_summary summary = {0};
	struct error *err = record_many(&v->request.target, &v->recording, out, &p, &summary);

	if (!err)
		err = write_profile(v, p, out);
	if (!err)
		record_many_say(p, &summary, written_to(v));
	if (summary.command)
		*ret = command_wait(summary.command);
	return err;
}

/* One recording, into one file. */
static struct error *record_file(struct record_verb *v, int *ret)
{
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_cli_target_ struct cli_target s = {0};
	/* Opened first: an invalid name must not lose ten seconds of recording. */
	struct error *err =
		outfile_open(v->request.output.path ? v->request.output.path : "-", &out);

	if (err)
		return err;
	stop_on_signals();
	v->recording.filter = &v->request.filter;
	v->request.target.source = v->source;
	err = record_targets_settle(&v->request.target);
	if (!err && record_targets_are_many(&v->request.target))
		return record_several(v, &out, ret);
	v->request.target.out = &out;
	if (!err)
		err = cli_target_open(&v->request.target, &s);
	if (!err)
		err = record(v, &s, &out);
	return cli_target_finish(&s, err, ret);
}

static struct error *record_file_of(void *arg, char *path, double seconds, int *ret)
{
	struct record_verb *v = arg;
	struct error *err;

	v->request.output.path = path;
	v->recording.duration = seconds;
	err = record_file(v, ret);
	if (!err || err->code != ERROR_NOT_GO || !v->request.target.follow)
		return err;
	error_destroy(err);
	*ret = RECORD_EVERY_NOTHING;
	return NULL;
}

static struct error *check_every(const struct record_verb *v)
{
	const char *path = v->request.output.path;

	if (v->every.keep > 0 && v->every.seconds <= 0)
		return error_format(ERROR_USAGE, "record: --keep needs --every DURATION");
	if (v->every.seconds > 0 && v->request.target.command)
		return error_format(ERROR_USAGE,
				    "record: --every and -- COMMAND are mutually exclusive");
	if (v->every.seconds > 0 && (!path || !strcmp(path, "-")))
		return error_format(ERROR_USAGE, "record: --every needs -o FILE");
	return NULL;
}

static struct error *run_record(struct record_verb *v, int *ret)
{
	_cleanup_free_ char *page = NULL;
	struct error *err = target_options_check(&v->request.target, "record");

	if (!err)
		err = check_every(v);
	if (!err)
		err = choose_page(v, &page);
	if (!err)
		err = choose_format(v);
	if (!err)
		err = source_check(v->source, v->format, "record");
	if (err || v->every.seconds <= 0)
		return err ? err : record_file(v, ret);
	stop_on_signals();
	return record_every_run(&v->every, v->request.output.path, v->recording.duration,
				record_file_of, v, ret);
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct record_verb v = {.request.target = {.confines = true,
						   .holds = true,
						   .takes_many = true},
				.recording.flags = GOSPECT_RECORD_NAMES};
	bool help;
	struct error *err = parse_options(&argp, "record", argc, argv, &v, &help);

	if (!err && !help)
		err = run_record(&v, ret);
	return err;
}

const struct verb verb_record = {"record",
				 "record a profile: where all goroutines spend their time", run};
