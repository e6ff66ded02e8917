/* A recorded file as a profile: a trace's spans become samples. */
#include <gospect/recorded.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "gotrace/label_text.h"
#include "gotrace/perfetto_reader.h"
#include "lib/cancel_api.h"
#include "lib/error_api.h"
#include "lib/give_wakers.h"
#include "lib/options.h"
#include "lib/profile_handle.h"
#include "lib/remark.h"
#include "lib/sink.h"
#include "lib/trace_paths.h"
#include "lib/trace_running.h"
#include "lib/trace_spans.h"
#include "lib/waker_words.h"
#include "perfdata/perfdata.h"
#include "profile/profile_symbols.h"
#include "profile/read_any.h"
#include "requests/summary.h"

/* Labels of one sample. */
#define MAX_LABELS 256

enum gospect_recorded_kind gospect_recorded_kind(const void *bytes, size_t size)
{
	static const char trace[] = "go 1.";

	if (perf_file_is(bytes, size))
		return GOSPECT_RECORDED_PERF_DATA;
	if (perfetto_is(bytes, size) ||
	    (size >= strlen(trace) && !memcmp(bytes, trace, strlen(trace))))
		return GOSPECT_RECORDED_TRACE;
	return GOSPECT_RECORDED_PROFILE;
}

static struct error *must_check take_options(const struct gospect_recorded_options *given,
					     struct gospect_recorded_options *o)
{
	struct error *err = options_take(given, o, sizeof(*o), "gospect_recorded_options");

	if (!err && o->flags & ~(uint32_t)(GOSPECT_RECORDED_LABELS | GOSPECT_RECORDED_WAKERS |
					   GOSPECT_RECORDED_GOROUTINES))
		err = error_format(ERROR_USAGE,
				   "invalid read flags 0x%x; see enum gospect_recorded_flags",
				   o->flags);
	if (!err && !o->label != !o->value)
		err = error_format(ERROR_USAGE,
				   ".label and .value need each other; set both or neither");
	o->name = o->name ? o->name : "the file";
	return err;
}

/* ---- a trace, as a profile ---- */

/* A wait that had begun before the trace. */
struct early {
	uint32_t place; /* of its sample */
	uint64_t end;
};

struct filling {
	const struct gospect_recorded_options *options;
	struct profile *profile;
	struct span_tables *tables;
	const struct trace_running *running;
	uint64_t *pcs;
	size_t capacity;
	struct waker_words words; /* of a waker graph */
	struct profile_label labels[MAX_LABELS];
	/* Those that end latest so far. */
	struct early *earlies;
	size_t early_count;
	size_t early_capacity;
	/* The first reading chooses goroutines; the second adds their times. */
	struct goroutine_ledger ledger;
	bool is_second;
};

/* *ret_wanted: it has the requested label. */
static struct error *must_check fill_labels(struct filling *f, const struct span *span,
					    struct profile_sample *sample, bool *ret_wanted)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT, value = STRBUF_INIT;
	const char *line = intern_get(&f->tables->texts, span->labels);
	const struct gospect_recorded_options *o = f->options;
	struct intern *strings = &f->profile->strings;
	struct profile_label *l = f->labels;

	*ret_wanted = !o->label;
	if (span_is_system(f->tables, span))
		return NULL;
	while (l < f->labels + MAX_LABELS && label_text_next(&line, &key, &value)) {
		l->key = utf8_intern(strings, key.data, key.length);
		l->value = utf8_intern(strings, value.data, value.length);
		if (key.failed || value.failed || l->key == INTERN_FAILED ||
		    l->value == INTERN_FAILED)
			return &error_no_memory;
		*ret_wanted |=
			o->label && !strcmp(key.data, o->label) && !strcmp(value.data, o->value);
		l++;
	}
	sample->labels = f->labels;
	sample->label_count = l - f->labels;
	return NULL;
}

/* A goroutine that waits at one place during the whole trace is idle. Whether a wait lasts to the
 * end is known only at the end. */
static struct error *must_check note_early(struct filling *f, const struct span *span,
					   uint32_t place)
{
	bool stands = span->state == TRACE_WAITING || span->state == TRACE_IN_SYSCALL;

	if (!stands || span->begin || (f->early_count && span->end < f->earlies[0].end))
		return NULL;
	if (f->early_count && span->end > f->earlies[0].end)
		f->early_count = 0;
	if (!array_reserve(&f->earlies, &f->early_capacity, f->early_count + 1))
		return &error_no_memory;
	f->earlies[f->early_count++] = (struct early){place, span->end};
	return NULL;
}

static void mark_idle(const struct filling *f)
{
	for (size_t i = 0; i < f->early_count; i++) {
		struct profile_sample *sample = &f->profile->samples[f->earlies[i].place];

		if (f->earlies[i].end < f->profile->duration_ns)
			return;
		sample->idle_ns += f->earlies[i].end;
		sample->idle_count++;
	}
}

static struct error *must_check add_times(struct filling *f, const struct span *span,
					  const struct profile_sample *sample, uint32_t *ret_place)
{
	struct error *err = profile_add_at(f->profile, sample, ret_place);

	if (!err)
		err = timeline_add(&f->profile->timeline, *ret_place, span->begin, span->end,
				   sample->wall_ns);
	return err ? err : note_early(f, span, *ret_place);
}

/* Adds to the ledger, or to the rows of the chosen goroutines. */
static struct error *must_check add_goroutine(struct filling *f, const struct span *span,
					      uint32_t place)
{
	struct profile *p = f->profile;
	struct goroutine_time time = {.goroutine = span->g,
				      .sample = place,
				      .begin = span->begin,
				      .end = span->end};
	struct error *err;

	if (f->is_second)
		return goroutine_rows_add(&p->goroutines, &time);
	if (span->start) {
		const struct interned *start = &f->tables->texts.strings[span->start];

		time.start = utf8_intern(&p->strings, start->data, start->length);
	}
	if (time.start == INTERN_FAILED)
		return &error_no_memory;
	err = goroutine_ledger_add(&f->ledger, p, &time);
	return err ? err : goroutine_rows_offer(&p->goroutines, &time);
}

/* `stack`: of a CPU sample; 0: none. */
static bool fill_stack(struct filling *f, const struct span *span, uint32_t stack,
		       struct profile_sample *sample)
{
	const char *reason = intern_get(&f->tables->texts, span->reason);

	if (f->options->flags & GOSPECT_RECORDED_WAKERS)
		return waker_words(&f->words, f->tables, span->stack, reason, &span->ended, sample);
	return span_words(f->tables, stack ?: span->stack, span->state == TRACE_RUNNING && !stack,
			  &f->pcs, &f->capacity, sample);
}

static bool is_wanted(const struct filling *f, const struct span *span)
{
	if (f->is_second && !goroutine_rows_has(&f->profile->goroutines, span->g))
		return false;
	return span->state == TRACE_WAITING || !(f->options->flags & GOSPECT_RECORDED_WAKERS);
}

static struct error *must_check add_sample(struct filling *f, const struct span *span,
					   uint32_t stack)
{
	struct profile *p = f->profile;
	struct profile_sample sample = {
		.state = (enum profile_state)span_state(span->state),
		.count = 1,
		.wall_ns = span->end - span->begin,
		.longest_ns = span->end - span->begin,
		.longest_goroutine = span->g,
	};
	bool wanted = true;
	uint32_t place;
	struct error *err = NULL;

	if (!is_wanted(f, span))
		return NULL;
	if (!fill_stack(f, span, stack, &sample))
		return &error_no_memory;
	if (f->options->flags & GOSPECT_RECORDED_LABELS)
		err = fill_labels(f, span, &sample, &wanted);
	if (err || !wanted)
		return err;
	sample.cpu_ns = span->state == TRACE_RUNNING ? sample.wall_ns : 0;
	if (span->state == TRACE_WAITING)
		sample.wait =
			intern_string(&p->strings, intern_get(&f->tables->texts, span->reason));
	if (sample.wait == INTERN_FAILED)
		return &error_no_memory;
	if (!f->is_second)
		err = add_times(f, span, &sample, &place);
	else if (!profile_find(p, &sample, &place))
		return NULL;
	if (!err && f->options->flags & GOSPECT_RECORDED_GOROUTINES)
		err = add_goroutine(f, span, place);
	return err;
}

/* Running time is divided among the CPU samples around it. */
static struct error *must_check add_span_time(void *arg, const struct span *span)
{
	struct filling *f = arg;
	struct span piece = *span;
	struct error *err = NULL;

	if (span->state != TRACE_RUNNING)
		return add_sample(f, span, 0);
	while (!err && piece.begin < span->end) {
		uint64_t until;
		uint32_t stack = trace_running_stack(f->running, &piece, &until);

		piece.end = until < span->end ? until : span->end;
		err = add_sample(f, &piece, stack);
		piece.begin = piece.end;
	}
	return err;
}

/* If there are too many goroutines for rows, some are chosen, and the trace is read again for their
 * times. */
static struct error *must_check read_goroutines(const void *bytes, size_t size, struct filling *f,
						const struct profile_symbols *symbols)
{
	const struct trace_spans_options how = {
		.spans = {add_span_time, f, .cancel = cancel_flag(f->options->cancel)},
		.name = f->options->name,
	};
	struct goroutine_rows *rows = &f->profile->goroutines;
	struct error *err = goroutine_ledger_choose(&f->ledger, f->profile, symbols, rows);
	uint64_t duration;

	f->is_second = true;
	if (err || !rows->is_full)
		return err;
	return trace_spans_read(bytes, size, &how, f->tables, &duration);
}

static struct error *must_check read_trace(const void *bytes, size_t size,
					   const struct gospect_recorded_options *o,
					   struct profile_file *ret)
{
	_cleanup_span_tables_ struct span_tables tables = {0};
	struct symbol_source source = {waker_word_frames, &tables};
	_cleanup_trace_running_ struct trace_running running = {0};
	struct filling filling = {.options = o, .tables = &tables, .running = &running};
	char header[32] = "";
	const struct trace_spans_options how = {
		.spans = {add_span_time, &filling, .cancel = cancel_flag(o->cancel)},
		.name = o->name,
		.remark = {o->remark, o->arg},
		.header = header,
	};
	struct error *err;

	ret->profile = filling.profile = profile_create();
	if (!ret->profile)
		return &error_no_memory;
	err = trace_running_read(&running, bytes, size, cancel_flag(o->cancel), &tables);
	if (!err)
		err = trace_spans_read(bytes, size, &how, &tables, &ret->profile->duration_ns);
	if (!err)
		mark_idle(&filling);
	if (!err)
		err = profile_add_comment(ret->profile, "gospect %s, from an execution trace (%s)",
					  GOSPECT_VERSION, header);
	if (!err)
		err = symbols_create(ret->profile, &source, &ret->symbols);
	if (!err && o->flags & GOSPECT_RECORDED_GOROUTINES)
		err = read_goroutines(bytes, size, &filling, ret->symbols);
	if (!err && o->flags & GOSPECT_RECORDED_GOROUTINES)
		err = trace_paths_read(bytes, size, o, ret->profile);
	goroutine_ledger_release(&filling.ledger);
	free(filling.pcs);
	waker_words_release(&filling.words);
	free(filling.earlies);
	return err;
}

/* ---- the others ---- */

static struct error *must_check read_perfdata(const void *bytes, size_t size,
					      const struct gospect_recorded_options *o,
					      struct profile_file *ret)
{
	_cleanup_perfdata_remarks_ struct perfdata_remarks remarks = {0};
	const struct remark to = {o->remark, o->arg};
	struct error *err =
		perfdata_read(bytes, size, o->exe, cancel_flag(o->cancel), ret, &remarks);

	for (size_t i = 0; !err && i < remarks.count; i++)
		remark(&to, "%s: %s", o->name, remarks.lines[i]);
	return err;
}

static struct error *must_check read_any(const void *bytes, size_t size,
					 const struct gospect_recorded_options *o,
					 struct profile_file *ret)
{
	enum gospect_recorded_kind kind = gospect_recorded_kind(bytes, size);

	if (kind != GOSPECT_RECORDED_TRACE && o->flags & GOSPECT_RECORDED_WAKERS)
		return error_format(ERROR_USAGE,
				    "GOSPECT_RECORDED_WAKERS needs an execution trace");
	if (kind == GOSPECT_RECORDED_PERF_DATA)
		return read_perfdata(bytes, size, o, ret);
	if (o->exe)
		return error_format(ERROR_USAGE,
				    "--exe needs a perf.data file; this file is not one");
	return kind == GOSPECT_RECORDED_TRACE
		       ? read_trace(bytes, size, o, ret)
		       : profile_read_any(bytes, size, cancel_flag(o->cancel), ret);
}

struct gospect_error *gospect_recorded_profile(const void *bytes, size_t size,
					       const struct gospect_recorded_options *given,
					       struct gospect_profile **ret)
{
	_cleanup_profile_file_ struct profile_file file = {0};
	struct gospect_recorded_options o = {0};
	struct error *err = take_options(given, &o);

	if (!err)
		err = read_any(bytes, size, &o, &file);
	return error_out(err ? err : profile_of_file(&file, ret));
}

/* ---- perf.data, written again ---- */

static struct error *must_check rewrite(const void *bytes, size_t size,
					const struct gospect_recorded_options *o,
					const struct gospect_sink *sink)
{
	_cleanup_perfdata_remarks_ struct perfdata_remarks remarks = {0};
	const struct remark to = {o->remark, o->arg};
	struct sink_stream out;
	struct error *err = sink_open(sink, &out);

	if (err)
		return err;
	err = perfdata_rewrite(bytes, size, o->exe, cancel_flag(o->cancel), out.file, &remarks);
	err = sink_close(&out, err);
	for (size_t i = 0; !err && i < remarks.count; i++)
		remark(&to, "%s: %s", o->name, remarks.lines[i]);
	return err;
}

struct gospect_error *gospect_recorded_rewrite(const void *bytes, size_t size,
					       const struct gospect_recorded_options *given,
					       struct gospect_sink sink)
{
	struct gospect_recorded_options o = {0};
	struct error *err = take_options(given, &o);

	if (!err && o.flags)
		err = error_format(ERROR_USAGE,
				   "invalid read flags 0x%x; see enum gospect_recorded_flags",
				   o.flags);
	if (!err && gospect_recorded_kind(bytes, size) != GOSPECT_RECORDED_PERF_DATA)
		err = error_format(ERROR_CORRUPT, "it is not a perf.data file");
	return error_out(err ? err : rewrite(bytes, size, &o, &sink));
}

/* ---- goroutines of a trace, by start function ---- */

static struct error *must_check add_span(void *arg, const struct span *span)
{
	return summary_add(arg, span);
}

static bool give_wait(const struct summary *summary, const struct summary_reason *from,
		      struct giving_wakers *giving, struct gospect_wait *ret)
{
	size_t count;
	const struct waker *wakers = wakers_of(&summary->wakers, from->number, &count);

	*ret = (struct gospect_wait){
		.reason = intern_get(&giving->tables->texts, from->reason),
		.ns = from->ns,
		.waited_ns = from->waited_ns,
	};
	ret->wakers = give_wakers(giving, ret->reason, wakers, count, &ret->waker_count);
	return ret->wakers;
}

/* NULL: no memory. */
static const struct gospect_wait *const *give_waits(const struct summary *summary,
						    const struct summary_row *row,
						    const struct span_tables *tables,
						    struct arena *arena)
{
	struct giving_wakers giving = {arena, tables, {0}};
	size_t count = row->reason_count;
	struct gospect_wait *waits = given_take(arena, (count + 1) * sizeof(*waits));
	const struct gospect_wait **pointers = given_take(arena, (count + 1) * sizeof(*pointers));

	bool given = waits && pointers;

	for (size_t i = 0; given && i < count; i++) {
		given = give_wait(summary, &row->reasons[i], &giving, &waits[i]);
		pointers[i] = &waits[i];
	}
	map_release(&giving.stacks);
	return given ? pointers : NULL;
}

static struct gospect_start start_of(const struct summary *summary, const struct summary_row *row,
				     const struct span_tables *tables, struct arena *arena)
{
	return (struct gospect_start){
		.name = intern_get(&tables->texts, row->start),
		.goroutines = row->goroutines,
		.total_ns = row->total_ns,
		.running_ns = row->ns[TRACE_RUNNING],
		.runnable_ns = row->ns[TRACE_RUNNABLE],
		.syscall_ns = row->ns[TRACE_IN_SYSCALL],
		.waiting_ns = row->ns[TRACE_WAITING],
		.wait_count = row->reason_count,
		.waits = give_waits(summary, row, tables, arena),
	};
}

struct gospect_error *
gospect_recorded_starts(const void *bytes, size_t size,
			const struct gospect_recorded_options *given,
			int (*start)(void *arg, const struct gospect_start *start), void *arg)
{
	_cleanup_span_tables_ struct span_tables tables = {0};
	_cleanup_summary_ struct summary summary = {0};
	struct gospect_recorded_options o = {0};
	struct trace_spans_options how = {.spans = {add_span, &summary}};
	struct error *err = take_options(given, &o);
	bool ended = false;
	uint64_t duration;

	how.spans.cancel = cancel_flag(o.cancel);
	how.name = o.name;
	how.remark = (struct remark){o.remark, o.arg};
	if (!err)
		err = trace_spans_read(bytes, size, &how, &tables, &duration);
	if (!err)
		summary_complete(&summary);
	for (size_t i = 0; !err && !ended && i < summary.count; i++) {
		struct arena arena = {0};
		struct gospect_start given_start =
			start_of(&summary, &summary.rows[i], &tables, &arena);

		err = given_start.waits ? NULL : &error_no_memory;
		ended = !err && start(arg, &given_start);
		arena_release(&arena);
	}
	return error_out(err);
}
