#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/request.h"
#include "trace/format.h"
#include "trace/model.h"
#include "trace/trace_file.h"
#include "trace/tracer.h"

/* A generation is complete after so much time or so many bytes: what is lost when we are killed,
 * and what a reader has to hold in memory. */
#define GENERATION_NS 1000000000ull
#define GENERATION_BYTES (8u << 20)

enum { KEY_MAX_SIZE = 0x6000, KEY_FLIGHT, KEY_STACK_DEPTH };

struct trace_verb {
	struct request request;
	const struct trace_format *format;
	double duration;
	double max_size; /* MB */
	double flight;   /* seconds; 0: the whole trace */
	double stack_depth;
};

static const struct argp_option options[] =
	{{"duration", 'd', "SECONDS", 0, "How long (until interrupted)", 4},
	 {"max-size", KEY_MAX_SIZE, "MB", 0, "End the trace when it is so large (256)", 4},
	 {"flight", KEY_FLIGHT, "SECONDS", 0,
	  "Keep only the last so many seconds, in memory, and write them on SIGUSR1, on an "
	  "interrupt and when the target ends",
	  4},
	 {"stack-depth", KEY_STACK_DEPTH, "N", 0, "Frames of a stack at most (32); 0: no stacks",
	  4},
	 {0}};

static error_t parse_option(const char *arg, double least, double most, double *ret,
			    struct argp_state *state, const char *what)
{
	if (!parse_number(arg, least, most, ret))
		return wrong_option(state, "'%s' is no %s (%g to %g)", arg, what, least, most);
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct trace_verb *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->request;
		return 0;
	case 'd':
		return parse_option(arg, 0.01, 1e7, &v->duration, state, "duration");
	case KEY_MAX_SIZE:
		return parse_option(arg, 1, 1e6, &v->max_size, state, "size in MB");
	case KEY_FLIGHT:
		return parse_option(arg, 0.1, 86400, &v->flight, state, "number of seconds");
	case KEY_STACK_DEPTH:
		return parse_option(arg, 0, TRACER_MAX_DEPTH, &v->stack_depth, state,
				    "number of frames");
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp =
	{options,
	 parse,
	 "-p PID\n-- COMMAND ARGS...",
	 "Traces what every goroutine of a Go program does: creation, start, block, unblock, "
	 "system calls, garbage collection, with times and stacks. It is the one verb that touches "
	 "the target: a small agent is put into it, for which it is stopped once for about 0.1 ms, "
	 "and taken out at the end.\v"
	 "Formats: go (.trace), for `go tool trace`; perfetto (.pftrace), for ui.perfetto.dev.\n"
	 "\n"
	 "Example: gospect trace -p 1234 -d 5 -o out.trace && go tool trace out.trace",
	 request_without_filter_children,
	 NULL,
	 NULL};

static const struct trace_format *const formats[] = {&trace_format_go, &trace_format_perfetto};

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n > k && !strcmp(text + n - k, end);
}

static const struct trace_format *find_format(const struct output_options *o)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (o->format ? !strcmp(o->format, formats[i]->name)
			      : ends_with(o->path, formats[i]->suffix))
			return formats[i];
	return NULL;
}

static struct error *choose_format(struct trace_verb *v)
{
	const struct output_options *o = &v->request.output;

	if (output_is_terminal(o))
		return error_format(ERROR_USAGE,
				    "trace: a trace is not for a terminal; give -o FILE.trace");
	if (v->flight > 0 && (!o->path || !strcmp(o->path, "-")))
		return error_format(ERROR_USAGE, "trace: --flight wants a file: give -o FILE");
	if (!o->format && (!o->path || !strcmp(o->path, "-")))
		v->format = &trace_format_go;
	else
		v->format = find_format(o);
	if (!v->format && o->format)
		return error_format(ERROR_USAGE,
				    "trace: there is no format '%s'; there are go and perfetto",
				    o->format);
	if (!v->format)
		return error_format(ERROR_USAGE,
				    "trace: cannot tell the format from the name %s; end it in "
				    ".trace or .pftrace, or give -f",
				    o->path);
	return NULL;
}

static volatile sig_atomic_t write_requested;

static void on_write_request(int number)
{
	write_requested = 1;
}

static void on_stop(int number)
{
	stop_requested = 1;
}

/* However often we are told to stop: the agent is taken out first. */
static void handle_signals(const struct trace_verb *v)
{
	struct sigaction stop = {.sa_handler = on_stop}, ask = {.sa_handler = on_write_request};

	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGHUP, &stop, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (v->flight > 0)
		sigaction(SIGUSR1, &ask, NULL);
}

/* A trace under way. */
struct tracing {
	const struct trace_verb *verb;
	struct tracer *tracer;
	struct trace_model *model;
	struct trace_writer *writer;
	struct trace_file *file;
	uint64_t generation_ns; /* when it began */
	uint64_t last_ns;       /* of the last event; then when the target was left alone */
	bool full;
};

static void tracing_release(struct tracing *t)
{
	/* First of all the target is left alone. */
	tracer_close(t->tracer);
	trace_model_destroy(t->model);
	if (t->writer)
		t->verb->format->destroy(t->writer);
	trace_file_close(t->file);
}

static struct error *add_generation(void *arg, const void *bytes, size_t size, uint64_t ns)
{
	struct tracing *t = arg;

	/* No gap: after one that was left out there are none. */
	t->full |= trace_file_is_full(t->file, size);
	if (t->full)
		return NULL;
	return trace_file_add(t->file, bytes, size, ns);
}

static struct error *open_file(struct tracing *t)
{
	const struct trace_verb *v = t->verb;
	struct trace_file_options file = {
		.path = v->request.output.path ? v->request.output.path : "-",
		.header = v->format->header,
		.header_size = v->format->header_size,
		.max_bytes = v->max_size * (1 << 20),
		.flight_ns = v->flight * 1e9,
	};

	return trace_file_open(&file, &t->file);
}

static struct error *begin(struct tracing *t, const struct subject *s)
{
	const struct trace_verb *v = t->verb;
	struct tracer_options tracer = {.stack_depth = v->stack_depth};
	struct trace_writer_options writer = {
		.functions = &s->image->functions,
		.depth = v->stack_depth,
		.separate = v->flight > 0,
		.process = target_exe_name(s->target),
		.pid = target_pid(s->target),
		.generation = add_generation,
		.arg = t,
	};
	struct trace_sink sink;
	struct error *err;

	err = tracer_open(s->target, s->image, s->layout, &tracer, &t->tracer);
	if (err)
		return err;
	writer.stacks = tracer_stacks(t->tracer);
	writer.texts = tracer_strings(t->tracer);
	err = v->format->create(&writer, &t->writer);
	if (err)
		return err;
	sink = v->format->sink(t->writer);
	return trace_model_create(&sink, &t->model);
}

static struct error *add_events(struct tracing *t, const struct trace_batch *batch)
{
	struct error *err = NULL;

	for (size_t i = 0; i < batch->count && !err && !t->full; i++) {
		const struct trace_event *ev = &batch->events[i];

		t->last_ns = ev->ns;
		if (ev->ns - t->generation_ns >= GENERATION_NS ||
		    t->verb->format->size(t->writer) >= GENERATION_BYTES) {
			t->generation_ns = ev->ns;
			err = trace_model_new_generation(t->model, ev->ns);
		}
		if (!err)
			err = trace_model_add(t->model, ev);
	}
	return err;
}

/* What is being written now counts as well. */
static bool is_full(const struct tracing *t)
{
	return t->full || trace_file_is_full(t->file, t->verb->format->size(t->writer));
}

static bool is_over(const struct tracing *t, uint64_t began)
{
	double seconds = (clock_now() - began) / 1e9;

	say_progress("%.0f s, %lu events", seconds, trace_model_stats(t->model).events);
	return stop_requested || is_full(t) ||
	       (t->verb->duration > 0 && seconds >= t->verb->duration);
}

/* What is in memory, as it is now: a reader wants complete generations. */
static struct error *write_flight(struct tracing *t)
{
	struct error *err = trace_model_new_generation(t->model, t->last_ns);

	write_requested = 0;
	t->generation_ns = t->last_ns;
	if (!err)
		err = trace_file_write(t->file);
	if (!err)
		say("the last %.1f s are in %s", (t->last_ns - trace_file_began(t->file)) / 1e9,
		    t->verb->request.output.path);
	return err;
}

/* The trace goes to this moment, whether something happens until then or not. */
static struct error *extend(struct tracing *t, uint64_t ns)
{
	if (t->full || ns <= t->last_ns)
		return NULL;
	t->last_ns = ns;
	return trace_model_new_generation(t->model, ns);
}

static struct error *run_tracing(struct tracing *t)
{
	uint64_t began = clock_now(), stopped_ns = 0;
	struct trace_batch batch = {0};
	struct error *err = NULL;

	while (!err && !batch.last) {
		if (!stopped_ns && is_over(t, began)) {
			err = tracer_stop(t->tracer);
			stopped_ns = clock_now() - tracer_start(t->tracer);
		}
		if (!err)
			err = tracer_next(t->tracer, &batch);
		if (!err)
			err = add_events(t, &batch);
		if (!err && write_requested)
			err = write_flight(t);
	}
	say_progress(NULL);
	return err ? err : extend(t, stopped_ns);
}

static void say_summary(const struct tracing *t)
{
	const struct output_options *o = &t->verb->request.output;
	struct tracer_stats stats;
	bool named = o->path && strcmp(o->path, "-");
	uint64_t pause;

	tracer_stats(t->tracer, &stats);
	pause = stats.attach_pause_ns > stats.detach_pause_ns ? stats.attach_pause_ns
							      : stats.detach_pause_ns;
	if (is_full(t))
		say("the trace is as large as it may be, %g MB, and ended early; --max-size "
		    "permits more",
		    t->verb->max_size);
	say("%.1f s, %lu events, %lu lost, %lu stacks%s, the target paused for %.2f ms at most%s%s",
	    (t->last_ns - trace_file_began(t->file)) / 1e9, stats.events, stats.lost, stats.stacks,
	    stats.stacks_lost ? " (too many to keep all)" : "", pause / 1e6, named ? " -> " : "",
	    named ? o->path : "");
}

/* What was complete is kept, whatever went wrong. */
static struct error *end(struct tracing *t, struct error *err)
{
	struct error *failed = NULL;

	if (!err)
		err = t->verb->format->finish(t->writer);
	if (trace_file_began(t->file))
		failed = trace_file_commit(t->file);
	if (err && !failed && trace_file_began(t->file))
		say("the trace up to there is kept");
	if (!err && !failed)
		say_summary(t);
	if (err)
		error_destroy(failed);
	return err ? err : failed;
}

static struct error *trace(struct trace_verb *v, const struct subject_options *subject,
			   struct subject *s)
{
	_cleanup_(tracing_release) struct tracing t = {.verb = v};
	/* Opened first: a trace is not lost to a name that cannot be written. */
	struct error *err = open_file(&t);

	if (!err)
		err = subject_open(subject, s);
	if (!err)
		err = begin(&t, s);
	if (err)
		return err;
	return end(&t, run_tracing(&t));
}

static struct error *run_trace(struct trace_verb *v, int *ret)
{
	_cleanup_subject_ struct subject s = {0};
	struct error *err = subject_check(&v->request.subject, "trace");

	if (!err)
		err = choose_format(v);
	if (err)
		return err;
	handle_signals(v);
	err = trace(v, &v->request.subject, &s);
	if (s.child)
		*ret = subject_wait(&s);
	return err;
}

static struct error *run(int argc, char **argv, int *ret)
{
	struct trace_verb v = {.max_size = 256, .stack_depth = 32};
	bool help;
	struct error *err = parse_options(&argp, "trace", argc, argv, &v, &help);

	if (!err && !help)
		err = run_trace(&v, ret);
	request_release(&v.request);
	return err;
}

const struct verb verb_trace = {"trace", "an execution trace: what every goroutine does, and when",
				run};
