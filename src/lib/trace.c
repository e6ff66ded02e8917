/*
 * A trace of a live process, from its beginning to its end: the tracer's events become a model's
 * steps, a format makes generations of them, and they go to a file or a sink.
 */
#include "lib/trace.h"

#include <regex.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/tracer.h"
#include "gotrace/model.h"
#include "gotrace/trace_file.h"
#include "gotrace/trace_format.h"
#include "hooks/injection.h"
#include "inject/pause.h"
#include "lib/error_api.h"
#include "lib/options.h"
#include "lib/sink.h"
#include "lib/surgeon_api.h"
#include "lib/target_handle.h"
#include "lib/trace_flight.h"
#include "lib/trace_remarks.h"
#include "lib/trace_state.h"

/* A generation is complete after this time or this many bytes. At most one is lost if gospect is
 * killed, and a reader holds one in memory. */
#define GENERATION_NS 1000000000ull
#define GENERATION_BYTES (8u << 20)
#define PROGRESS_NS 100000000ull
/* A longer expected pause is announced. */
#define SAID_PAUSE_MS 5

/* A flight drops old records only once they are decoded. On a machine that is never idle, this
 * share of its size may wait. */
#define FLIGHT_WAITS_SHARE 0.5
#define FLIGHT_WAITS_NS 60000000000ull
/* Conditions are looked for in decoded records, so these wait less. */
#define WATCHED_WAITS_NS 2000000000ull

/* The time limit of decoding at the end, and per byte of the temporary file. Usually that takes
 * seconds; a hostile program may have written enough for hours. */
#define REST_NS 60000000000ull
#define REST_NS_OF_BYTE 100
/* Events between two reads of the clock. */
#define LOOK_EVENTS 256

/* The defaults for options that are 0. */
#define DEFAULT_DEPTH 32
#define DEFAULT_MAX_BYTES (256ull << 20)

/* Stacks are as deep as the tracer can. */
_Static_assert(GOSPECT_TRACE_MOST_DEPTH == TRACER_MAX_DEPTH, "one is handed on as the other");

static void report_detached(struct gospect_trace *t)
{
	if (t->options.detached)
		t->options.detached(t->options.arg);
}

void gospect_trace_write_flight(struct gospect_trace *t)
{
	atomic_store(&t->write_requested, true);
}

void gospect_trace_destroy(struct gospect_trace *t)
{
	if (!t)
		return;
	/* The agent is removed first. */
	tracer_close(t->tracer);
	if (t->spill_bytes)
		close(t->spill);
	gospect_surgeon_end(t->surgeon);
	trace_model_destroy(t->model);
	step_paths_destroy(t->paths);
	if (t->writer)
		t->format->destroy(t->writer);
	trace_file_close(t->file);
	watch_destroy(t->watch);
	kept_files_release(&t->kept);
	strbuf_release(&t->bytes);
	error_destroy(t->detach_failed);
	if (t->has_root)
		regfree(&t->root);
	free(t);
}

/* Whether one more generation of this size would exceed the limit. */
static bool has_no_room(const struct gospect_trace *t, size_t size)
{
	if (t->file)
		return trace_file_is_full(t->file, size);
	return t->written + size > t->options.max_bytes;
}

static struct error *must_check put(struct gospect_trace *t, const void *bytes, size_t size)
{
	t->written += size;
	if (!(t->options.flags & GOSPECT_TRACE_IN_MEMORY))
		return sink_put(&t->options.sink, bytes, size);
	strbuf_add(&t->bytes, bytes, size);
	return t->bytes.failed ? &error_no_memory : NULL;
}

static struct error *add_generation(void *arg, const void *bytes, size_t size, uint64_t ns)
{
	struct gospect_trace *t = arg;

	t->generations++;
	/* No gap: after a generation that was left out, all later ones are left out. */
	t->full |= has_no_room(t, size);
	if (t->full)
		return NULL;
	if (t->file)
		return trace_file_add(t->file, bytes, size, ns);
	return put(t, bytes, size);
}

/*
 * A generation begins with `stated` bytes: the state of everything. When room is short, generations
 * are small, because the one that does not fit is lost. But each repeats the state, 16 MB with a
 * million goroutines, so as many bytes of events must follow.
 */
static void begin_generation(struct gospect_trace *t, uint64_t ns, size_t stated)
{
	size_t part = t->options.max_bytes / 8;
	size_t room = part < GENERATION_BYTES ? part : GENERATION_BYTES;

	t->generation_ns = ns;
	t->enough = stated + (room < stated ? stated : room);
}

/* Undecoded records may take half of the disk space that the trace leaves. Half of the room is as
 * large as the trace: it ends before more waits. */
static void open_spill(struct gospect_trace *t)
{
	uint64_t most = t->options.max_bytes, free = 0;

	t->spill = outfile_open_scratch(t->options.path, &free);
	free = free > most ? (free - most) / 2 : 0;
	if (!(t->options.flight > 0))
		most *= 2;
	t->spill_bytes = free < most ? free : most;
	if (!t->spill_bytes && t->spill >= 0)
		close(t->spill);
}

static struct error *must_check open_file(struct gospect_trace *t)
{
	static const char *const endings[] = {".trace", ".pftrace", NULL};
	struct trace_file_options file = {
		.path = t->options.path,
		.endings = endings,
		.header = t->format->header,
		.header_size = t->format->header_size,
		.max_bytes = t->options.max_bytes,
		.flight_ns = t->options.flight * 1e9,
	};
	struct error *err = NULL;

	begin_generation(t, 0, 0);
	if (t->options.flight > 0)
		err = flight_check_name(t->options.path);
	if (err)
		return err;
	if (t->options.path) {
		open_spill(t);
		return trace_file_open(&file, &t->file);
	}
	return put(t, file.header, file.header_size);
}

static struct error *must_check check_numbers(const struct gospect_trace_options *o)
{
	if (!(o->duration >= 0 && o->duration <= 1e7) || !(o->flight >= 0 && o->flight <= 86400) ||
	    !(o->max_pause >= 0 && o->max_pause <= 3600))
		return error_format(
			ERROR_USAGE,
			"invalid trace: duration %g s, flight %g s, max_pause %g s; the limits are 1e+07, 86400 and 3600 s",
			o->duration, o->flight, o->max_pause);
	if (!(o->cpu_hz >= 0 && o->cpu_hz <= GOSPECT_TRACE_MOST_CPU_HZ))
		return error_format(ERROR_USAGE,
				    "invalid cpu_hz: %g; the limit is %d samples a second",
				    o->cpu_hz, GOSPECT_TRACE_MOST_CPU_HZ);
	if (o->stack_depth > GOSPECT_TRACE_MOST_DEPTH)
		return error_format(ERROR_USAGE,
				    "invalid stack_depth: the limit is %d frames, not %u",
				    GOSPECT_TRACE_MOST_DEPTH, o->stack_depth);
	if (o->format > GOSPECT_TRACE_PERFETTO)
		return error_format(ERROR_USAGE,
				    "invalid trace format %u; see enum gospect_trace_format",
				    o->format);
	if (o->flags & ~(uint32_t)(GOSPECT_TRACE_NO_STACKS | GOSPECT_TRACE_IN_MEMORY |
				   GOSPECT_TRACE_NO_NAMES | GOSPECT_TRACE_ALLOC))
		return error_format(ERROR_USAGE,
				    "invalid trace flags 0x%x; see enum gospect_trace_flags",
				    o->flags);
	return NULL;
}

static struct error *must_check choose_format(const struct gospect_trace_options *o,
					      const struct trace_format **ret)
{
	if (o->format == GOSPECT_TRACE_PERFETTO && o->wire)
		return error_format(ERROR_USAGE,
				    "--wire needs Go's format; omit it for Perfetto's");
	if (o->wire && o->wire != 22 && o->wire != 23 && o->wire != 25)
		return error_format(ERROR_USAGE,
				    "invalid trace format 1.%u: use 1.22, 1.23 or 1.25", o->wire);
	if (o->format == GOSPECT_TRACE_PERFETTO)
		*ret = &trace_format_perfetto;
	else if (o->wire == 25)
		*ret = &trace_format_go_125;
	else
		*ret = o->wire == 23 ? &trace_format_go_123 : &trace_format_go;
	return NULL;
}

static struct error *must_check take_conditions(struct gospect_trace *t)
{
	const struct gospect_trace_options *o = &t->options;
	struct watch_options watch = {.conditions = o->when, .flight_ns = o->flight * 1e9};

	t->kept.most = o->keep;
	if (!o->when || !*o->when)
		return o->keep && !(o->flight > 0)
			       ? error_format(ERROR_USAGE, "--keep needs --flight")
			       : NULL;
	if (!(o->flight > 0))
		return error_format(ERROR_USAGE, "--when needs --flight, as in --flight 10s");
	return watch_create(&watch, &t->watch);
}

/* Whose calls are recorded: those that the user asks for, and those that conditions name. */
static struct error *must_check take_functions(struct gospect_trace *t, const char *root,
					       const char *conditions)
{
	_cleanup_strbuf_ struct strbuf both = STRBUF_INIT;

	if (!root && !conditions)
		return NULL;
	if (root && regcomp(&t->root, root, REG_EXTENDED | REG_NOSUB))
		return error_format(ERROR_USAGE, "invalid regular expression '%s'", root);
	t->has_root = root;
	if (!conditions)
		return NULL;
	if (root)
		strbuf_addf(&both, "(%s)|", root);
	strbuf_adds(&both, conditions);
	if (both.failed)
		return &error_no_memory;
	if (t->has_root)
		regfree(&t->root);
	t->has_root = !regcomp(&t->root, both.data, REG_EXTENDED | REG_NOSUB);
	return t->has_root
		       ? NULL
		       : error_format(ERROR_USAGE, "invalid regular expression '%s'", both.data);
}

static struct error *must_check take_options(struct gospect_trace *t,
					     const struct gospect_trace_options *given)
{
	struct gospect_trace_options *o = &t->options;
	struct error *err;

	t->bytes = (struct strbuf)STRBUF_INIT;
	err = options_take(given, o, sizeof(*o), "gospect_trace_options");

	if (!err)
		err = check_numbers(o);
	if (err)
		return err;
	if (o->flight > 0 && (!o->path || !strcmp(o->path, "-")))
		return error_format(ERROR_USAGE, "a flight recorder needs a file; set .path");
	if (o->path && o->flags & GOSPECT_TRACE_IN_MEMORY)
		return error_format(ERROR_USAGE,
				    "GOSPECT_TRACE_IN_MEMORY and .path are mutually exclusive");
	err = take_conditions(t);
	if (!err)
		err = take_functions(t, o->root, t->watch ? watch_functions(t->watch) : NULL);
	if (!err)
		err = choose_format(o, &t->format);
	if (err)
		return err;
	o->max_bytes = o->max_bytes ? o->max_bytes : DEFAULT_MAX_BYTES;
	o->stack_depth = o->stack_depth ? o->stack_depth : DEFAULT_DEPTH;
	if (o->flags & GOSPECT_TRACE_NO_STACKS)
		o->stack_depth = o->cpu_hz = 0;
	return NULL;
}

struct gospect_error *gospect_trace_create(const struct gospect_trace_options *given,
					   struct gospect_trace **ret)
{
	_cleanup_gospect_trace_ struct gospect_trace *t = calloc(1, sizeof(*t));
	struct error *err = t ? take_options(t, given) : &error_no_memory;

	if (!err)
		err = open_file(t);
	if (err)
		return error_out(err);
	t->place.out = t->file ? trace_file_out(t->file) : NULL;
	t->place.family = t->file ? trace_file_family(t->file) : NULL;
	t->place.keep = t->options.keep;
	*ret = take_ptr(t);
	return NULL;
}

/* Uses the caller's surgeon, or starts one. */
static struct error *must_check find_surgeon(struct gospect_trace *t,
					     struct gospect_surgeon *surgeon)
{
	struct gospect_target *target = t->target;
	struct gospect_error *err = NULL;

	if (!surgeon)
		err = gospect_surgeon_start(target_pid(target->target), target->cancelled_by,
					    &t->surgeon);
	if (!err)
		t->line = surgeon_line_of(surgeon ? surgeon : t->surgeon);
	return (struct error *)err;
}

/* ", and gospect's CPU quota is 10 ms in 100 ms" */
static void add_quota(struct strbuf *s, const char *whose, const struct pause_quota *quota)
{
	if (quota->period_ns)
		strbuf_addf(s, ", and %s CPU quota is %.3g ms in %.3g ms", whose,
			    quota->runtime_ns / 1e6, quota->period_ns / 1e6);
}

/* The pause grows with the number of threads, and with quotas. A long one is announced. */
static struct error *must_check say_pause(const struct gospect_trace *t, const struct pause *pause,
					  const char *quotas)
{
	int pid = target_pid(t->target->target);
	double ms = pause->ns / 1e6;

	if (t->options.max_pause > 0 && ms > t->options.max_pause * 1e3)
		return error_format(
			ERROR_DENIED,
			"process %d has %zu threads%s, so tracing would stop it twice for about %.3g ms; --max-pause allows %.3g ms",
			pid, pause->threads, quotas, ms, t->options.max_pause * 1e3);
	if (ms > SAID_PAUSE_MS)
		remark(&t->target->remark,
		       "process %d has %zu threads%s, so tracing stops it twice for about %.0f ms",
		       pid, pause->threads, quotas, ms);
	return NULL;
}

static struct error *must_check check_pause(const struct gospect_trace *t)
{
	_cleanup_strbuf_ struct strbuf quotas = STRBUF_INIT;
	struct pause pause;
	struct error *err = inject_expected_pause(&t->line, &pause);

	if (err)
		return err;
	add_quota(&quotas, "gospect's", &pause.own);
	add_quota(&quotas, "its", &pause.target);
	return say_pause(t, &pause, quotas.length ? quotas.data : "");
}

/* A trace without --flight ends before too many records wait (is_filled()). */
static struct collector_limits limits_of(const struct gospect_trace_options *o)
{
	if (!(o->flight > 0))
		return (struct collector_limits){0};
	return (struct collector_limits){o->max_bytes * FLIGHT_WAITS_SHARE,
					 o->when && *o->when ? WATCHED_WAITS_NS : FLIGHT_WAITS_NS};
}

static struct error *must_check open_tracer(struct gospect_trace *t)
{
	const struct gospect_trace_options *o = &t->options;
	struct tracer_options tracer = {.stack_depth = o->stack_depth,
					.root = t->has_root ? &t->root : NULL,
					.no_names = o->flags & GOSPECT_TRACE_NO_NAMES,
					.allocations = o->flags & GOSPECT_TRACE_ALLOC,
					.surgeon = &t->line,
					.duration_ns = o->duration * 1e9,
					.spill = t->spill,
					.spill_bytes = t->spill_bytes,
					.limits = limits_of(o),
					.cancel = t->target->cancel,
					.cpu_hz = o->cpu_hz};
	struct gospect_target *target = t->target;

	return tracer_open(target->target, target->image, target->layout, &tracer, &t->tracer);
}

/* Time since 1970 at which CLOCK_MONOTONIC had this value. */
static uint64_t wall_clock_at(uint64_t monotonic)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec - (clock_now() - monotonic);
}

static void write_path(void *arg, const struct trace_path *path)
{
	struct gospect_trace *t = arg;

	t->format->path(t->writer, path);
}

/* Puts what finds critical paths in front of the writer. */
static struct error *must_check open_paths(struct gospect_trace *t, struct trace_sink *sink)
{
	if (!t->format->path)
		return NULL;
	t->paths = step_paths_create(
		&(struct step_paths_options){tracer_texts(t->tracer), write_path, t});
	if (!t->paths)
		return &error_no_memory;
	*sink = step_paths_sink(t->paths, sink);
	return NULL;
}

static struct error *must_check open_writer(struct gospect_trace *t)
{
	const struct gospect_trace_options *o = &t->options;
	struct trace_writer_options writer = {
		.functions = &t->target->image->functions,
		.stacks = tracer_stacks(t->tracer),
		.texts = tracer_texts(t->tracer),
		.cpu_stacks = tracer_cpu_stacks(t->tracer),
		.c_functions = tracer_c_functions(t->tracer),
		.depth = o->stack_depth,
		.separate = o->flight > 0,
		.process = target_exe_name(t->target->target),
		.pid = target_pid(t->target->target),
		.monotonic_ns = tracer_start(t->tracer),
		.wall_ns = wall_clock_at(tracer_start(t->tracer)),
		.generation = add_generation,
		.arg = t,
	};
	struct trace_sink sink;
	struct error *err = t->format->create(&writer, &t->writer);

	if (err)
		return err;
	sink = t->format->sink(t->writer);
	err = open_paths(t, &sink);
	if (err)
		return err;
	if (t->watch)
		sink = watch_sink(t->watch,
				  &(struct watch_source){writer.texts, writer.stacks,
							 writer.functions},
				  &sink);
	return trace_model_create(&sink, &t->model);
}

static struct error *must_check begin(struct gospect_trace *t, struct gospect_target *target,
				      struct gospect_surgeon *surgeon)
{
	struct error *err;

	if (t->target || !target_pid(target->target))
		return error_format(
			ERROR_USAGE,
			"cannot begin this trace: it has begun already, or its target is not a live process; create a new trace");
	t->target = target;
	err = find_surgeon(t, surgeon);
	if (!err)
		err = check_pause(t);
	if (!err)
		err = open_tracer(t);
	if (err)
		return err;
	trace_remark_begin(t);
	return open_writer(t);
}

struct gospect_error *gospect_trace_begin(struct gospect_trace *t, struct gospect_target *target,
					  struct gospect_surgeon *surgeon)
{
	return error_out(begin(t, target, surgeon));
}

static struct error *must_check clean(struct gospect_target *t, struct gospect_surgeon *surgeon,
				      bool *ret_found)
{
	_cleanup_gospect_surgeon_ struct gospect_surgeon *own = NULL;
	struct gospect_error *err = NULL;
	struct surgeon_line line;

	if (!target_pid(t->target))
		return error_format(
			ERROR_USAGE,
			"cannot begin this trace: it has begun already, or its target is not a live process; create a new trace");
	if (!surgeon)
		err = gospect_surgeon_start(target_pid(t->target), t->cancelled_by, &own);
	if (err)
		return (struct error *)err;
	line = surgeon_line_of(surgeon ? surgeon : own);
	return inject_clean(t->target, t->image, t->layout, &line, ret_found);
}

struct gospect_error *gospect_trace_clean(struct gospect_target *t, struct gospect_surgeon *surgeon,
					  int *ret_found)
{
	bool found = false;
	struct error *err = clean(t, surgeon, &found);

	*ret_found = found;
	return error_out(err);
}

static bool is_complete(const struct gospect_trace *t, uint64_t ns)
{
	return ns - t->generation_ns >= GENERATION_NS || t->format->size(t->writer) >= t->enough;
}

static struct error *must_check new_generation(struct gospect_trace *t, uint64_t ns)
{
	struct error *err = trace_model_new_generation(t->model, ns);

	begin_generation(t, ns, t->format->size(t->writer));
	t->renewed = true;
	return err;
}

/* Whether decoding the rest has taken too long. */
static bool is_given_up(struct gospect_trace *t)
{
	if (t->stopped_ns)
		t->given_up = clock_now() - tracer_start(t->tracer) - t->stopped_ns >
			      REST_NS + t->spill_bytes * REST_NS_OF_BYTE;
	return t->given_up;
}

static struct error *add_events(struct gospect_trace *t, const struct trace_batch *batch)
{
	struct error *err = NULL;

	for (size_t i = 0; i < batch->count && !err && !t->full; i++) {
		const struct trace_event *ev = &batch->events[i];

		if (i % LOOK_EVENTS == 0 && is_given_up(t))
			break;
		t->last_ns = ev->ns;
		t->is_news |= ev->kind != TRACE_HEAP_ALLOC && ev->kind != TRACE_HEAP_GOAL &&
			      ev->kind != TRACE_CPU_SAMPLE && ev->kind != TRACE_COUNTER;
		if (is_complete(t, ev->ns))
			err = new_generation(t, ev->ns);
		if (!err)
			err = trace_model_add(t->model, ev);
	}
	if (batch->living && !err && !t->full)
		err = trace_model_bury(t->model, batch->living, batch->living_ns);
	return err;
}

/* The current generation counts as well. */
static bool is_full(const struct gospect_trace *t)
{
	return t->full || has_no_room(t, t->format->size(t->writer));
}

/* Between two batches only the writer holds texts. */
static void forget_texts(struct gospect_trace *t)
{
	struct texts *texts = tracer_texts(t->tracer);

	if (!texts_are_due(texts) && !(t->renewed && texts_are_new(texts)))
		return;
	t->renewed = false;
	tracer_mark_texts(t->tracer);
	trace_model_mark_texts(t->model, texts);
	t->format->mark_texts(t->writer, texts);
	texts_sweep(texts);
}

/* Between two batches only the writer holds numbers of stacks, up to the end of its generation. */
static struct error *must_check forget_cpu_stacks(struct gospect_trace *t)
{
	uint64_t before = t->generations;
	struct error *err;

	if (!tracer_has_many_cpu_stacks(t->tracer) || t->full)
		return NULL;
	err = new_generation(t, t->last_ns);
	if (!err && t->generations > before)
		tracer_forget_cpu_stacks(t->tracer);
	return err;
}

static void report_progress(struct gospect_trace *t, uint64_t began)
{
	uint64_t now = clock_now();

	if (now - t->reported_ns < PROGRESS_NS)
		return;
	if (t->options.progress)
		t->options.progress(t->options.arg, (now - began) / 1e9,
				    trace_model_stats(t->model).events);
	t->reported_ns = now;
}

/* Whether the trace, with its undecoded records, reaches its limit. A record takes about as many
 * bytes as its event; with the text of a log it takes more. */
static bool is_filled(struct gospect_trace *t)
{
	if (!(t->options.flight > 0) &&
	    has_no_room(t, t->format->size(t->writer) + tracer_waiting(t->tracer)))
		t->filled = true;
	return t->filled;
}

static bool is_over(struct gospect_trace *t, uint64_t began)
{
	double seconds = (clock_now() - began) / 1e9;

	if (atomic_load(t->target->cancel))
		t->reason = "interrupt";
	else if (t->options.duration > 0 && seconds >= t->options.duration)
		t->reason = "duration";
	return t->reason || is_filled(t) || is_full(t);
}

/* Extends the trace to this time, even if nothing happens until then. */
static struct error *extend(struct gospect_trace *t, uint64_t ns)
{
	if (t->full || ns <= t->last_ns)
		return NULL;
	t->last_ns = ns;
	return trace_model_new_generation(t->model, ns);
}

/* The current generation is completed first. */
static struct error *must_check write_flight(struct gospect_trace *t)
{
	struct error *err = new_generation(t, t->last_ns);

	return err ? err : flight_write(t);
}

static struct error *take_all(struct gospect_trace *t)
{
	uint64_t began = clock_now();
	struct trace_batch batch = {0};
	struct error *err = NULL;

	/* Events after a generation that did not fit cannot be in the file. */
	while (!err && !batch.last && !(t->stopped_ns && t->full) && !is_given_up(t)) {
		report_progress(t, began);
		if (!t->stopped_ns && is_over(t, began)) {
			t->detach_failed = tracer_stop(t->tracer);
			t->stopped_ns = clock_now() - tracer_start(t->tracer);
			report_detached(t);
		}
		if (!err)
			err = tracer_next(t->tracer, &batch);
		if (!err)
			err = add_events(t, &batch);
		if (!err)
			err = forget_cpu_stacks(t);
		forget_texts(t);
		if (!err && flight_is_due(t, &batch))
			err = write_flight(t);
	}
	return err || t->given_up ? err : extend(t, t->stopped_ns);
}

static void complete_stats(struct gospect_trace *t, const struct tracer_stats *from)
{
	uint64_t began = t->file ? trace_file_began(t->file) : 0;
	bool longer = from->attach_pause_ns > from->detach_pause_ns;

	t->complete = true;
	t->stats = (struct gospect_trace_stats){
		.duration_ns = t->last_ns - began,
		.events = from->events,
		.lost = from->lost,
		.stacks = from->stacks,
		.stacks_lost = from->stacks_lost,
		.texts_lost = from->texts_lost,
		.pause_ns = longer ? from->attach_pause_ns : from->detach_pause_ns,
		.is_full = t->filled || is_full(t),
	};
}

static void report_stats(struct gospect_trace *t)
{
	struct tracer_stats stats;

	tracer_stats(t->tracer, &stats);
	complete_stats(t, &stats);
	trace_remark_end(t, &stats, is_full(t));
}

/* Complete generations are kept after any error. */
static struct error *end(struct gospect_trace *t, struct error *err)
{
	struct error *failed = NULL;
	bool any;

	if (!err)
		err = trace_model_complete(t->model);
	if (!err && t->paths)
		err = step_paths_complete(t->paths);
	if (!err)
		err = t->format->finish(t->writer);
	any = t->file && trace_file_began(t->file);
	if (!err && t->file && !any && (t->full || trace_file_is_outgrown(t->file)))
		err = flight_too_small(t);
	if (any)
		failed = t->options.flight > 0 ? flight_write_last(t, err)
					       : trace_file_commit(t->file);
	if (err && !failed && any)
		remark(&t->target->remark, "the trace up to that error is kept");
	if (!err && !failed)
		report_stats(t);
	if (err)
		error_destroy(failed);
	return err ? err : failed;
}

const void *gospect_trace_bytes(const struct gospect_trace *t, size_t *ret_size)
{
	*ret_size = t->bytes.length;
	return t->bytes.data;
}

/* Removes the agent, whatever went wrong. */
static void leave(struct gospect_trace *t)
{
	if (t->stopped_ns)
		return;
	t->detach_failed = tracer_stop(t->tracer);
	report_detached(t);
}

struct gospect_error *gospect_trace_run(struct gospect_trace *t)
{
	struct error *err;

	if (!t->model || t->ran)
		return error_out(error_format(
			ERROR_USAGE,
			"cannot run this trace: it has not begun, or has run already; create a new trace"));
	t->ran = true;
	err = take_all(t);
	leave(t);
	err = end(t, err);
	return error_out(err ? err : take_ptr(t->detach_failed));
}

const struct gospect_trace_stats *gospect_trace_stats(const struct gospect_trace *t)
{
	return t->complete ? &t->stats : NULL;
}
