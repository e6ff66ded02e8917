#include <string.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "base/strbuf.h"
#include "cli/common_options.h"
#include "cli/duration.h"
#include "cli/no_match.h"
#include "cli/recording.h"
#include "cli/report_ask.h"
#include "cli/tracing.h"
#include "cli/tracing_options.h"

enum { KEY_MAX_SIZE = 0x7200, KEY_SAMPLED };

struct offcpu_verb {
	struct common_options request;
	struct report_ask ask;
	struct gospect_record_options recording; /* its duration is the trace's too */
	struct tracing_options tracing;
	double max_size; /* MB */
	bool sampled;
};

static const struct argp_option options[] =
	{{"max-size", KEY_MAX_SIZE, "MB", 0,
	  "Stop when the trace, which is in memory, has this size (256)", 4},
	 {"sampled", KEY_SAMPLED, NULL, 0,
	  "Sample instead of tracing, with -r and --budget. This writes nothing to the target. "
	  "gospect prints the error of the times",
	  4},
	 {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct offcpu_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->recording;
		state->child_inputs[2] = &v->ask;
		state->child_inputs[3] = &v->tracing;
		return 0;
	case KEY_MAX_SIZE:
		if (!parse_number(arg, 1, 1e6, &v->max_size))
			return wrong_option(state, "invalid size in MB '%s' (1 to 1e+06)", arg);
		return 0;
	case KEY_SAMPLED:
		v->sampled = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&common_options_without_filter_argp, 0, NULL, 0},
					     {&recording_argp, 0, NULL, 0},
					     {&report_ask_argp, 0, NULL, 0},
					     {&tracing_options_argp, 0, NULL, 0},
					     {0}};
static const struct argp argp = {
	options,
	parse,
	"PID|NAME\n-- COMMAND ARGS...",
	"Shows the slowest requests, and how long each was running, runnable, in system calls and "
	"blocked. Blocked time is divided by wait reason and stack. A request is one call of an HTTP "
	"or gRPC handler, or, with --by label:KEY, one value of a pprof label. The times come from a "
	"trace, which writes to the target as `gospect trace` does. If tracing is refused, offcpu "
	"samples.\v"
	"Formats: text and json (a table); pprof, folded, folded-state, speedscope, firefox and html (a profile).\n"
	"\n"
	"Examples:\n"
	"  gospect offcpu server -d 5s --slower 100ms\n"
	"  gospect offcpu -p 1234 -d 5s --by label:trace_id --only 4f2a -o slow.html",
	children,
	NULL,
	NULL};

/* Whether rows may be start functions if there are no requests. */
static bool has_fallback(const struct report_ask *ask)
{
	return ask->by_function && !ask->root && !ask->groups && !ask->by_trace &&
	       !ask->allocations && !report_ask_selects(ask);
}

static bool needs_trace(const struct report_ask *ask)
{
	return ask->wakers || ask->machine || ask->paths || report_ask_selects(ask) || ask->span ||
	       ask->allocations;
}

/* Samples cannot tell one call of a handler from the next. */
static void fall_back(struct report_ask *ask)
{
	if (!ask->by_function)
		return;
	say("samples do not show where a request without labels begins and ends; here is each "
	    "start function (--by label:KEY shows requests)");
	ask->by_function = false;
	ask->table.key = GOSPECT_GROUP_ROOT;
}

static struct error *check(struct offcpu_verb *v)
{
	struct error *err = target_options_check(&v->request.target, "offcpu");

	if (!err && !v->ask.is_chosen)
		v->ask.by_function = v->ask.defaulted = true;
	if (!err)
		err = report_ask_check(&v->ask, &v->request.output, "offcpu");
	if (!err && v->sampled && v->tracing.cpu_hz > 0)
		return error_format(ERROR_USAGE,
				    "offcpu: --cpu samples beside a trace; omit --sampled");
	if (!err && v->sampled && needs_trace(&v->ask))
		return error_format(
			ERROR_USAGE,
			"offcpu: --wakers, --critical-path, --route, --slower, --span, --alloc and --by machine need a trace; omit --sampled");
	if (!err && v->sampled && (v->ask.groups || (v->ask.by_function && !has_fallback(&v->ask))))
		return error_format(
			ERROR_USAGE,
			"offcpu: --sampled cannot tell one request without a label from the next, or when it began; omit --sampled");
	return err;
}

/* What is recorded beside handlers: functions that are rows, or parts of them. */
static struct error *must_check recorded_functions(const struct report_ask *ask, struct strbuf *ret)
{
	if (ask->root && ask->span)
		strbuf_addf(ret, "(%s)|(%s)", ask->root, ask->span);
	else
		strbuf_adds(ret, ask->root ?: ask->span ?: "");
	return ret->failed ? &error_no_memory : NULL;
}

/* The trace stays in memory, in *ret, and is read like a trace from a file. */
static struct error *trace(const struct offcpu_verb *v, struct cli_target *s,
			   struct gospect_trace **ret, bool *ret_refused)
{
	_cleanup_strbuf_ struct strbuf root = STRBUF_INIT;
	struct error *err = recorded_functions(&v->ask, &root);
	const struct gospect_trace_options o = {
		.size = sizeof(o),
		.duration = v->recording.duration,
		.max_bytes = v->max_size * (1 << 20),
		.max_pause = v->tracing.max_pause,
		/* The function that a request is a call of is far out in the stack. */
		.stack_depth = v->ask.by_function ? GOSPECT_TRACE_MOST_DEPTH : 0,
		.flags = GOSPECT_TRACE_IN_MEMORY |
			 (v->tracing.no_names ? GOSPECT_TRACE_NO_NAMES : 0) |
			 (v->ask.allocations ? GOSPECT_TRACE_ALLOC : 0),
		.root = root.length ? root.data : NULL,
		.cpu_hz = v->tracing.cpu_hz,
	};

	if (!err)
		err = tracing_create(&o, ret);
	if (err)
		return err;
	err = tracing_begin(*ret, s);
	*ret_refused = err && (err->code == ERROR_UNSUPPORTED || err->code == ERROR_DENIED);
	return err ? err : tracing_run(*ret, NULL);
}

/* A row is a share of all time, and the error applies to that share. */
static void say_error(const struct gospect_profile_info *p, bool requests)
{
	double ms = p->error * p->goroutines * p->duration_ns / 1e6;

	if (requests)
		say("sampled: the times are accurate to ±%.3g ms (95 %% confidence); requests shorter than %.3g ms may be missing",
		    ms, p->looks > 0 ? 1e3 / p->looks : 0);
	else
		say("sampled: the times are accurate to ±%.3g ms (95 %% confidence)", ms);
}

static struct error *sample(struct offcpu_verb *v, struct cli_target *s, struct report_file *file)
{
	const struct gospect_filter labelled = {.size = sizeof(labelled),
						.label = v->ask.table.label};
	struct error *err;

	fall_back(&v->ask);
	v->recording.filter = &labelled;
	v->recording.flags = v->tracing.no_names ? 0 : GOSPECT_RECORD_NAMES;
	err = recording_take(s, &v->recording, &file->profile);
	if (err)
		return err;
	recording_say(file->profile, &v->recording, NULL);
	if (labelled.label && !gospect_profile_info(file->profile)->samples)
		return no_match(s->handle, &labelled, false);
	say_error(gospect_profile_info(file->profile), labelled.label);
	return NULL;
}

static struct error *measure(struct offcpu_verb *v, struct cli_target *s, struct report_file *file,
			     struct gospect_trace **ret)
{
	bool refused = false;
	struct error *err;

	if (v->sampled)
		return sample(v, s, file);
	err = trace(v, s, ret, &refused);
	if (!err)
		file->bytes = gospect_trace_bytes(*ret, &file->size);
	if (!refused || v->ask.groups || needs_trace(&v->ask) ||
	    (v->ask.by_function && !has_fallback(&v->ask)))
		return err;
	say("%s; sampling instead", err->message);
	error_destroy(err);
	return sample(v, s, file);
}

static struct error *run_offcpu(struct offcpu_verb *v, int *ret)
{
	_cleanup_report_file_ struct report_file file = {.path = "the recording"};
	_cleanup_outfile_ struct outfile out = {0};
	_cleanup_cli_target_ struct cli_target s = {0};
	_cleanup_trace_ struct gospect_trace *t = NULL;
	struct error *err = check(v);

	/* Opened first: an invalid name must not lose a trace. */
	if (!err)
		err = outfile_open(v->request.output.path ?: "-", &out);
	if (err)
		return err;
	tracing_handle_signals(false);
	v->request.target.out = &out;
	v->request.target.source = v->ask.source;
	v->request.target.confines = v->request.target.holds = true;
	v->request.target.traces = !v->sampled;
	err = cli_target_open(&v->request.target, &s);
	if (!err)
		err = measure(v, &s, &file, &t);
	if (!err)
		err = report_ask_write(&v->ask, &file, out.stream);
	if (!err)
		err = outfile_commit(&out);
	return cli_target_finish(&s, err, ret);
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct offcpu_verb v = {.ask = REPORT_ASK_INIT, .max_size = 256};
	bool help;
	struct error *err = parse_options(&argp, "offcpu", argc, argv, &v, &help);

	return err || help ? err : run_offcpu(&v, ret);
}

const struct verb verb_offcpu = {"offcpu",
				 "show why requests are slow: what each did and waited for", run};
