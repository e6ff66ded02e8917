#include "cli/tracing.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent/abi.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/stop.h"
#include "hooks/injection.h"

/* A generation is complete after so much time or so many bytes: what is lost when we are killed,
 * and what a reader has to hold in memory. */
#define GENERATION_NS 1000000000ull
#define GENERATION_BYTES (8u << 20)
#define PROGRESS_NS 100000000ull
/* A pause that is expected to be longer is said before. */
#define SAID_PAUSE_MS 5

/* Decoding what was recorded by the end takes seconds on a slow machine, and for each byte of the
 * file that it waits in at most so long; a hostile program may have written what takes hours. */
#define REST_NS 60000000000ull
#define REST_NS_OF_BYTE 100
/* Events between two looks at the clock. */
#define LOOK_EVENTS 256

static volatile sig_atomic_t write_requested;

static void on_write_request(int number)
{
	write_requested = 1;
}

void tracing_handle_signals(const struct tracing_options *options)
{
	/* Calls that it interrupts go on: it may come at any time, and often. */
	struct sigaction ask = {.sa_handler = on_write_request, .sa_flags = SA_RESTART};

	stop_on_signals();
	if (options->flight > 0)
		sigaction(SIGUSR1, &ask, NULL);
}

void tracing_release(struct tracing *t)
{
	/* First of all the target is left alone. */
	tracer_close(t->tracer);
	if (t->spill_bytes)
		close(t->spill);
	stop_release();
	trace_model_destroy(t->model);
	if (t->writer)
		t->options.format->destroy(t->writer);
	trace_file_close(t->file);
	error_destroy(t->detach_failed);
	*t = (struct tracing){0};
}

/* One more generation of this size would be too much. */
static bool has_no_room(const struct tracing *t, size_t size)
{
	if (t->file)
		return trace_file_is_full(t->file, size);
	return t->options.bytes->length + size > t->options.max_size * (1 << 20);
}

static struct error *add_generation(void *arg, const void *bytes, size_t size, uint64_t ns)
{
	struct tracing *t = arg;

	/* No gap: after one that was left out there are none. */
	t->full |= has_no_room(t, size);
	if (t->full)
		return NULL;
	if (t->file)
		return trace_file_add(t->file, bytes, size, ns);
	strbuf_add(t->options.bytes, bytes, size);
	return t->options.bytes->failed ? &error_no_memory : NULL;
}

/*
 * A generation begins with so many bytes that say what everybody was doing. Small ones when there
 * is not much room: the one that does not fit any more is lost. But each says all of that anew:
 * with a million goroutines that is 16 MB, and as much has to follow.
 */
static void begin_generation(struct tracing *t, uint64_t ns, size_t stated)
{
	size_t part = t->options.max_size * (1 << 20) / 8;
	size_t room = part < GENERATION_BYTES ? part : GENERATION_BYTES;

	t->generation_ns = ns;
	t->enough = stated + (room < stated ? stated : room);
}

/* What waits to be decoded may take as much as the trace itself, and half of what that leaves free
 * on the disk. */
static void open_spill(struct tracing *t)
{
	uint64_t most = t->options.max_size * (1 << 20), free = 0;

	t->spill = outfile_open_scratch(t->options.path, &free);
	free = free > most ? (free - most) / 2 : 0;
	t->spill_bytes = free < most ? free : most;
	if (!t->spill_bytes && t->spill >= 0)
		close(t->spill);
}

struct error *tracing_open(struct tracing *t, const struct tracing_options *options)
{
	struct trace_file_options file = {
		.path = options->path,
		.header = options->format->header,
		.header_size = options->format->header_size,
		.max_bytes = options->max_size * (1 << 20),
		.flight_ns = options->flight * 1e9,
	};

	*t = (struct tracing){.options = *options};
	begin_generation(t, 0, 0);
	if (options->path) {
		open_spill(t);
		return trace_file_open(&file, &t->file);
	}
	strbuf_add(options->bytes, file.header, file.header_size);
	return options->bytes->failed ? &error_no_memory : NULL;
}

static void say_left_out(const struct tracer *tracer)
{
	const char *line = tracer_left_out(tracer)->data;

	while (*line) {
		int length = (int)strcspn(line, "\n");

		say("%.*s", length, line);
		line += length + 1;
	}
}

/* It grows with the threads: it is said before, where it is not short. */
static struct error *must_check check_pause(const struct tracing *t, struct target *target)
{
	size_t threads;
	double ms = inject_expected_pause_ns(target, &threads) / 1e6;

	if (t->options.max_pause > 0 && ms > t->options.max_pause * 1e3)
		return error_format(
			ERROR_DENIED,
			"process %d has %zu threads, so tracing would stop it twice for about "
			"%.3g ms; --max-pause allows %.3g ms",
			target_pid(target), threads, ms, t->options.max_pause * 1e3);
	if (ms > SAID_PAUSE_MS)
		say("process %d has %zu threads, so tracing stops it twice for about %.0f ms",
		    target_pid(target), threads, ms);
	return NULL;
}

struct error *tracing_begin(struct tracing *t, const struct subject *s)
{
	const struct tracing_options *o = &t->options;
	struct tracer_options tracer = {.stack_depth = o->stack_depth,
					.root = o->root,
					.stop = &stop_requested,
					.duration_ns = o->duration * 1e9,
					.spill = t->spill,
					.spill_bytes = t->spill_bytes,
					.most_waiting = o->max_size * (1 << 20)};
	struct trace_writer_options writer = {
		.functions = &s->image->functions,
		.depth = o->stack_depth,
		.separate = o->flight > 0,
		.process = target_exe_name(s->target),
		.pid = target_pid(s->target),
		.generation = add_generation,
		.arg = t,
	};
	struct trace_sink sink;
	struct error *err;

	stop_hold();
	err = check_pause(t, s->target);
	if (!err)
		err = tracer_open(s->target, s->image, s->layout, &tracer, &t->tracer);
	if (err)
		return err;
	say_left_out(t->tracer);
	writer.stacks = tracer_stacks(t->tracer);
	writer.texts = tracer_texts(t->tracer);
	err = o->format->create(&writer, &t->writer);
	if (err)
		return err;
	sink = o->format->sink(t->writer);
	return trace_model_create(&sink, &t->model);
}

static bool is_complete(const struct tracing *t, uint64_t ns)
{
	return ns - t->generation_ns >= GENERATION_NS ||
	       t->options.format->size(t->writer) >= t->enough;
}

static struct error *must_check new_generation(struct tracing *t, uint64_t ns)
{
	struct error *err = trace_model_new_generation(t->model, ns);

	begin_generation(t, ns, t->options.format->size(t->writer));
	t->renewed = true;
	return err;
}

/* What is left of a trace that has ended is not worth more time. */
static bool is_given_up(struct tracing *t)
{
	if (t->stopped_ns)
		t->given_up = clock_now() - tracer_start(t->tracer) - t->stopped_ns >
			      REST_NS + t->spill_bytes * REST_NS_OF_BYTE;
	return t->given_up;
}

static struct error *add_events(struct tracing *t, const struct trace_batch *batch)
{
	struct error *err = NULL;

	for (size_t i = 0; i < batch->count && !err && !t->full; i++) {
		const struct trace_event *ev = &batch->events[i];

		if (i % LOOK_EVENTS == 0 && is_given_up(t))
			break;
		t->last_ns = ev->ns;
		if (is_complete(t, ev->ns))
			err = new_generation(t, ev->ns);
		if (!err)
			err = trace_model_add(t->model, ev);
	}
	if (batch->living && !err && !t->full)
		err = trace_model_bury(t->model, batch->living, batch->living_ns);
	return err;
}

/* What is being written now counts as well. */
static bool is_full(const struct tracing *t)
{
	return t->full || has_no_room(t, t->options.format->size(t->writer));
}

/* Between two batches nobody else holds a text. */
static void forget_texts(struct tracing *t)
{
	struct texts *texts = tracer_texts(t->tracer);

	if (!texts_are_due(texts) && !(t->renewed && texts_are_new(texts)))
		return;
	t->renewed = false;
	tracer_mark_texts(t->tracer);
	trace_model_mark_texts(t->model, texts);
	t->options.format->mark_texts(t->writer, texts);
	texts_sweep(texts);
}

static void tell(struct tracing *t, uint64_t began)
{
	uint64_t now = clock_now();

	if (now - t->told_ns < PROGRESS_NS)
		return;
	say_progress("%.0f s, %lu events%s", (now - began) / 1e9,
		     trace_model_stats(t->model).events,
		     t->stopped_ns ? "; the program is not traced any more" : "");
	t->told_ns = now;
}

static bool is_over(const struct tracing *t, uint64_t began)
{
	double seconds = (clock_now() - began) / 1e9;

	return stop_requested || is_full(t) ||
	       (t->options.duration > 0 && seconds >= t->options.duration);
}

static struct error *too_small(const struct tracing *t)
{
	return error_format(
		ERROR_FAILED,
		"no trace written: one second of this program needs more than %g MB; raise "
		"--max-size",
		t->options.max_size);
}

/* What is in memory, as it is now: a reader wants complete generations. That it cannot be written
 * now does not end the trace. */
static struct error *write_flight(struct tracing *t)
{
	struct error *err = new_generation(t, t->last_ns), *failed;

	t->asked_ns = 0;
	if (err)
		return err;
	failed = trace_file_is_outgrown(t->file) ? too_small(t) : trace_file_write(t->file);
	if (failed)
		say("%s; the trace continues, and SIGUSR1 tries again", failed->message);
	else
		say("wrote the last %.1f s to %s", (t->last_ns - trace_file_began(t->file)) / 1e9,
		    t->options.path);
	error_destroy(failed);
	return NULL;
}

/* When it is asked for, it is to have what has happened by then. */
static struct error *must_check check_flight(struct tracing *t, const struct trace_batch *batch)
{
	if (write_requested) {
		write_requested = 0;
		t->asked_ns = clock_now() - tracer_start(t->tracer);
		tracer_hurry(t->tracer);
	}
	return t->asked_ns && batch->until_ns >= t->asked_ns ? write_flight(t) : NULL;
}

/* The trace goes to this moment, whether something happens until then or not. */
static struct error *extend(struct tracing *t, uint64_t ns)
{
	if (t->full || ns <= t->last_ns)
		return NULL;
	t->last_ns = ns;
	return trace_model_new_generation(t->model, ns);
}

static struct error *take_all(struct tracing *t)
{
	uint64_t began = clock_now();
	struct trace_batch batch = {0};
	struct error *err = NULL;

	/* What comes behind a generation that did not fit has no place in the file. */
	while (!err && !batch.last && !(t->stopped_ns && t->full) && !is_given_up(t)) {
		tell(t, began);
		if (!t->stopped_ns && is_over(t, began)) {
			t->detach_failed = tracer_stop(t->tracer);
			t->stopped_ns = clock_now() - tracer_start(t->tracer);
			stop_release();
		}
		if (!err)
			err = tracer_next(t->tracer, &batch);
		if (!err)
			err = add_events(t, &batch);
		forget_texts(t);
		if (!err)
			err = check_flight(t, &batch);
	}
	say_progress(NULL);
	return err || t->given_up ? err : extend(t, t->stopped_ns);
}

static void say_lost(const struct tracer_stats *stats)
{
	if (stats->lost && stats->had_to_wait)
		say("events were lost because gospect did not get CPU time; let it use a "
		    "real-time priority: run it as root, with CAP_SYS_NICE or with `ulimit -r 1`");
}

static void say_spill(const struct tracer_stats *stats)
{
	if (stats->spill_failed)
		say("cannot write trace records to a temporary file: %s; gospect decoded more while the program ran, which slows it down",
		    strerror(stats->spill_failed));
}

static void say_labels(const struct tracer_stats *stats)
{
	if (stats->labels_cut)
		say("%lu labels were truncated or lost: the limits are %d bytes a value, and %d "
		    "labels and %d bytes a set",
		    stats->labels_cut, AGENT_MAX_LABEL, AGENT_MAX_LABELS, AGENT_LABEL_BYTES);
	if (stats->labels_lost)
		say("%lu label sets were lost: the table of label sets was full, or the labels "
		    "changed before gospect read them",
		    stats->labels_lost);
}

static void say_texts(const struct tracer_stats *stats)
{
	if (stats->texts_lost)
		say("%lu strings of tasks, regions, logs and labels are left out: the limit is %u "
		    "strings and %u MB at a time",
		    stats->texts_lost, TEXTS_MAX, TEXTS_MAX_BYTES >> 20);
}

static void say_limits(const struct tracing *t)
{
	uint64_t refused = trace_model_stats(t->model).refused;
	uint64_t (*left_out)(const struct trace_writer *) = t->options.format->left_out;
	uint64_t tasks = left_out ? left_out(t->writer) : 0;

	if (tasks)
		say("%lu tasks are left out: the limit is %u tasks at a time", tasks,
		    TRACE_MOST_TASKS);
	if (refused)
		say("%lu events are left out: the limit of goroutines, threads or open regions at "
		    "a time is reached",
		    refused);
	if (t->given_up)
		say("the trace ends early: decoding the last events takes too long");
}

static void say_processors(const struct tracer_stats *stats)
{
	if (stats->without_ring)
		say("%lu Ps (GOMAXPROCS) have no ring buffer of their own and share %d, so their "
		    "events may be lost: GOMAXPROCS grew during the trace, or is above %d",
		    stats->without_ring, AGENT_SPARE_SLOTS, AGENT_MOST_P_SLOTS);
}

static void say_summary(const struct tracing *t)
{
	const char *path = t->options.path;
	struct tracer_stats stats;
	bool named = path && strcmp(path, "-");
	uint64_t pause, began = t->file ? trace_file_began(t->file) : 0;

	tracer_stats(t->tracer, &stats);
	pause = stats.attach_pause_ns > stats.detach_pause_ns ? stats.attach_pause_ns
							      : stats.detach_pause_ns;
	if (is_full(t))
		say("the trace reached its maximum size, %g MB, and ended early; raise --max-size",
		    t->options.max_size);
	if (stats.absences)
		say("gospect got no CPU time for seconds, %lu times; the agent switched itself "
		    "off, so the events of these times are missing",
		    stats.absences);
	say_lost(&stats);
	say_spill(&stats);
	say_labels(&stats);
	say_texts(&stats);
	say_limits(t);
	say_processors(&stats);
	say("%.1f s, %lu events, %lu lost, %lu stacks%s, the target paused for %.2f ms at most%s%s",
	    (t->last_ns - began) / 1e9, stats.events, stats.lost, stats.stacks,
	    stats.stacks_lost ? " (too many to keep all)" : "", pause / 1e6, named ? " -> " : "",
	    named ? path : "");
}

/* What was complete is kept, whatever went wrong. */
static struct error *end(struct tracing *t, struct error *err)
{
	struct error *failed = NULL;
	bool any;

	if (!err)
		err = t->options.format->finish(t->writer);
	any = t->file && trace_file_began(t->file);
	if (!err && t->file && !any && (t->full || trace_file_is_outgrown(t->file)))
		err = too_small(t);
	if (any)
		failed = trace_file_commit(t->file);
	if (err && !failed && any)
		say("the trace up to there is kept");
	if (!err && !failed)
		say_summary(t);
	if (err)
		error_destroy(failed);
	return err ? err : failed;
}

struct error *tracing_run(struct tracing *t)
{
	struct error *err = end(t, take_all(t));

	return err ? err : take_ptr(t->detach_failed);
}
