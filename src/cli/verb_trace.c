#include <gospect/recorded.h>
#include <regex.h>
#include <string.h>

#include "base/array.h"
#include "cli/common_options.h"
#include "cli/duration.h"
#include "cli/tracing.h"
#include "cli/tracing_options.h"

enum {
	KEY_MAX_SIZE = 0x6000,
	KEY_FLIGHT,
	KEY_STACK_DEPTH,
	KEY_ROOT,
	KEY_WIRE,
	KEY_WHEN,
	KEY_KEEP,
	KEY_ALLOC
};

/* Conditions; the library has a lower limit. */
#define MOST_WHEN 32

struct trace_verb {
	struct common_options request;
	struct gospect_trace_options options;
	double max_size; /* MB */
	double stack_depth;
	double keep;
	const char *when[MOST_WHEN + 1];
	size_t when_count;
	struct tracing_options tracing;
	bool allocations;   /* --alloc */
	bool makes_page;    /* writes an HTML page of a trace in memory */
	struct outfile out; /* the page */
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Trace:", 4},
	{"duration", 'd', "DURATION", 0,
	 "Stop after DURATION, as 10s, 500ms or 2m (default: when interrupted)", 4},
	{"max-size", KEY_MAX_SIZE, "MB", 0, "Stop when the trace has this size (256)", 4},
	{"flight", KEY_FLIGHT, "DURATION", 0,
	 "Keep only the last DURATION, in memory. SIGUSR1, an interrupt and the end of the target "
	 "write it to a new file",
	 4},
	{"when", KEY_WHEN, "CONDITION", 0,
	 "With --flight: also write the file when this is true, as 'request > 500ms', "
	 "'lock > 100ms', 'runnable > 20ms', 'stop > 5ms', 'goroutines > 10000', 'heap > 1GB', "
	 "'call REGEX' or panic; may be given several times",
	 4},
	{"keep", KEY_KEEP, "N", 0, "With --flight: remove the oldest of more than N files", 4},
	{"stack-depth", KEY_STACK_DEPTH, "N", 0,
	 "Record at most this many frames of a stack (32); 0 records none", 4},
	{"root", KEY_ROOT, "REGEX", 0,
	 "Record calls of matching functions too, as regions for report --root; HTTP and gRPC "
	 "handlers are always recorded",
	 4},
	{"alloc", KEY_ALLOC, NULL, 0,
	 "Record allocations too, for report --alloc: those that the program's heap profile samples",
	 4},
	{"wire", KEY_WIRE, "VERSION", 0,
	 "Write the trace format of Go 1.22 (the default), 1.23 or 1.25. The newer two need "
	 "tools of that version. They also have the stacks of goroutines that never run",
	 4},
	{"verbose", 'v', NULL, 0, "Print the whole summary on a terminal too", 4},
	{0}};

static bool check_regex(const char *text)
{
	regex_t regex;

	if (regcomp(&regex, text, REG_EXTENDED | REG_NOSUB))
		return false;
	regfree(&regex);
	return true;
}

static bool parse_wire(const char *text, uint32_t *ret)
{
	static const struct {
		const char *name;
		uint32_t wire;
	} versions[] = {{"1.22", 22}, {"1.23", 23}, {"1.25", 25}};

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		if (strcmp(text, versions[i].name))
			continue;
		*ret = versions[i].wire;
		return true;
	}
	return false;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct trace_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		state->child_inputs[1] = &v->tracing;
		return 0;
	case 'v':
		print_all_numbers();
		return 0;
	case 'd':
		return parse_duration_option(arg, 0.01, 1e7, &v->options.duration, state);
	case KEY_MAX_SIZE:
		return parse_number_option(arg, 1, 1e6, &v->max_size, state, "size in MB");
	case KEY_FLIGHT:
		return parse_duration_option(arg, 0.1, 86400, &v->options.flight, state);
	case KEY_ROOT:
		if (v->options.root)
			return wrong_option(state, "--root can be given only once");
		v->options.root = arg;
		return check_regex(arg)
			       ? 0
			       : wrong_option(state, "invalid regular expression '%s'", arg);
	case KEY_WHEN:
		if (v->when_count == MOST_WHEN)
			return wrong_option(state, "too many options --when");
		v->when[v->when_count++] = arg;
		v->options.when = v->when;
		return 0;
	case KEY_KEEP:
		return parse_number_option(arg, 1, 1e6, &v->keep, state, "number of files");
	case KEY_ALLOC:
		v->allocations = true;
		return 0;
	case KEY_WIRE:
		return parse_wire(arg, &v->options.wire)
			       ? 0
			       : wrong_option(state,
					      "invalid trace format '%s': use 1.22, 1.23 or 1.25",
					      arg);
	case KEY_STACK_DEPTH:
		return parse_number_option(arg, 0, GOSPECT_TRACE_MOST_DEPTH, &v->stack_depth, state,
					   "number of frames");
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&common_options_without_filter_argp, 0, NULL, 0},
					     {&tracing_options_argp, 0, NULL, 0},
					     {0}};
static const struct argp argp =
	{options,
	 parse,
	 "PID|NAME\n-- COMMAND ARGS...",
	 "Records an execution trace of a Go program. Its events are creation, start, block and "
	 "unblock of goroutines, system calls and garbage collection, with times and stacks. It "
	 "writes to the target: it installs a small agent at the start and removes it at the end. "
	 "Each stops the target, for about 0.3 ms with 10 threads and 4 ms with 1,000.\v"
	 "Formats: go (.trace) for go tool trace, perfetto (.pftrace) for ui.perfetto.dev, html "
	 "(.html), a flame graph with a time axis.\n"
	 "\n"
	 "Examples:\n"
	 "  gospect trace -p 1234 -d 5s -o out.trace && go tool trace out.trace\n"
	 "  gospect trace -p server --flight 10s -o incident.trace",
	 children,
	 NULL,
	 NULL};

static const struct {
	const char *name;
	const char *suffix; /* of files */
} formats[] = {
	[GOSPECT_TRACE_GO] = {"go", ".trace"},
	[GOSPECT_TRACE_PERFETTO] = {"perfetto", ".pftrace"},
};

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n > k && !strcmp(text + n - k, end);
}

static bool find_format(const struct output_options *o, uint32_t *ret)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (o->format ? strcmp(o->format, formats[i].name)
			      : !ends_with(o->path, formats[i].suffix))
			continue;
		*ret = i;
		return true;
	}
	return false;
}

static bool is_page(const struct output_options *o)
{
	if (o->format)
		return !strcmp(o->format, "html");
	return o->path && ends_with(o->path, ".html");
}

static struct error *choose_format(struct trace_verb *v)
{
	const struct output_options *o = &v->request.output;

	if (output_is_terminal(o))
		return error_format(
			ERROR_USAGE,
			"trace: a trace is binary, and standard output is a terminal; use -o FILE.trace");
	if (v->options.flight > 0 && (!o->path || !strcmp(o->path, "-")))
		return error_format(ERROR_USAGE, "trace: --flight needs a file; use -o FILE");
	if (!o->format && (!o->path || !strcmp(o->path, "-")))
		return NULL;
	v->makes_page = is_page(o);
	if (v->makes_page && v->options.flight > 0)
		return error_format(ERROR_USAGE,
				    "trace: --flight writes traces only; use gospect report "
				    "FILE.trace -o FILE.html afterwards");
	if (v->makes_page || find_format(o, &v->options.format))
		return NULL;
	if (o->format)
		return error_format(ERROR_USAGE,
				    "trace: unknown format '%s'; use go, perfetto or html",
				    o->format);
	return error_format(
		ERROR_USAGE,
		"trace: unknown file extension of %s; use .trace, .pftrace or .html, or -f FORMAT",
		o->path);
}

static struct error *open_target(struct trace_verb *v, struct gospect_trace *trace,
				 struct cli_target *s)
{
	struct target_options *o = &v->request.target;

	o->confines = o->traces = o->reads_alone = true;
	o->trace = trace;
	return cli_target_open(o, s);
}

static struct error *write_page(struct trace_verb *v, const struct gospect_trace *trace)
{
	const struct gospect_recorded_options how = {
		.size = sizeof(how),
		.name = "the trace",
		.flags = GOSPECT_RECORDED_LABELS | GOSPECT_RECORDED_GOROUTINES,
		.remark = say_remark,
	};
	struct gospect_profile *p = NULL;
	size_t size;
	const void *bytes = gospect_trace_bytes(trace, &size);
	struct error *err = library_error(gospect_recorded_profile(bytes, size, &how, &p));

	if (!err)
		err = library_error(gospect_profile_write(p, GOSPECT_HTML, output_sink(&v->out)));
	gospect_profile_destroy(p);
	return err ? err : outfile_commit(&v->out);
}

/* The trace ends before its target is closed. */
static struct error *trace(struct trace_verb *v, struct cli_target *s)
{
	_cleanup_trace_ struct gospect_trace *t = NULL;
	struct error *err = tracing_create(&v->options, &t);

	if (!err)
		err = open_target(v, t, s);
	if (!err)
		err = tracing_begin(t, s);
	if (!err)
		err = tracing_run(t, v->request.output.path ?: "-");
	return err || !v->makes_page ? err : write_page(v, t);
}

static struct error *run_trace(struct trace_verb *v, int *ret)
{
	_cleanup_cli_target_ struct cli_target s = {0};
	struct error *err = target_options_check(&v->request.target, "trace");

	if (!err)
		err = choose_format(v);
	if (!err && v->makes_page)
		err = outfile_open(v->request.output.path ?: "-", &v->out);
	if (err)
		return err;
	if (v->makes_page)
		v->request.target.out = &v->out;
	else
		v->options.path = v->request.output.path ?: "-";
	v->options.max_bytes = v->max_size * (1 << 20);
	v->options.stack_depth = v->stack_depth;
	v->options.keep = v->keep;
	v->options.max_pause = v->tracing.max_pause;
	v->options.cpu_hz = v->tracing.cpu_hz;
	v->options.flags = (v->stack_depth < 1 ? GOSPECT_TRACE_NO_STACKS : 0) |
			   (v->tracing.no_names ? GOSPECT_TRACE_NO_NAMES : 0) |
			   (v->allocations ? GOSPECT_TRACE_ALLOC : 0) |
			   (v->makes_page ? GOSPECT_TRACE_IN_MEMORY : 0);
	tracing_handle_signals(v->options.flight > 0);
	err = trace(v, &s);
	outfile_abandon(&v->out);
	return cli_target_finish(&s, err, ret);
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct trace_verb v = {.max_size = 256,
			       .stack_depth = 32,
			       .options.size = sizeof(v.options),
			       .request.target.holds = true};
	bool help;
	struct error *err = parse_options(&argp, "trace", argc, argv, &v, &help);

	return err || help ? err : run_trace(&v, ret);
}

const struct verb verb_trace = {"trace",
				"record an execution trace: what every goroutine does, and when",
				run};
