/*
 * The processed profile format of the Firefox Profiler (profiler.firefox.com), version 57 as in
 * docs-developer/CHANGELOG-formats.md and src/types/profile.ts of that project. Newer versions of
 * the Firefox Profiler read it, too.
 *
 * Each state is a thread. Its samples are in the order of their time, each with its wall time as
 * weight. A column of the timeline holds many samples: they share the column's width by weight. A
 * wait reason is a subcategory of the category "waiting"; a sample has the subcategory of its
 * stack. A marker is a time during which goroutines waited at one stack. A profile without time (a
 * dump) has counts as weights.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "profile/json_text.h"
#include "profile/profile.h"
#include "profile/profile_symbols.h"
#include "profile/stack_tree.h"
#include "profile/time_order.h"
#include "profile/wait_spans.h"

#define VERSION 57
#define NULL_NUMBER UINT64_MAX

struct track_frame {
	uint32_t line;     /* an index into profile_symbols.source_lines */
	uint32_t wait;     /* a subcategory; 0: none */
	uint32_t function; /* a number of track.functions */
};

struct track_function {
	uint32_t name; /* in profile_symbols.strings, as the file */
	uint32_t file;
	uint32_t start_line;
};

/* The tables of a thread. Indices in them are the intern's numbers less one. */
struct track {
	enum profile_state state;
	struct stack_tree tree; /* keys are numbers of frames */
	struct intern frames;
	struct intern functions;
};

struct firefox {
	const struct profile *profile;
	const struct profile_symbols *symbols;
	struct time_order order;
	struct track tracks[PROFILE_STATES];
	uint32_t *stacks; /* for each sample: its node in its track's tree */
	struct map waits; /* a number of profile->strings -> a subcategory */
	uint32_t *wait_texts;
	uint32_t wait_count;
	size_t wait_capacity;
	FILE *out;
};

static void firefox_release(struct firefox *f)
{
	time_order_release(&f->order);
	for (int i = 0; i < PROFILE_STATES; i++) {
		stack_tree_release(&f->tracks[i].tree);
		intern_release(&f->tracks[i].frames);
		intern_release(&f->tracks[i].functions);
	}
	free(f->stacks);
	free(f->wait_texts);
	map_release(&f->waits);
}

/* ---- the tables ---- */

/* INTERN_FAILED: there is no memory. */
static uint32_t wait_number(struct firefox *f, uint32_t wait)
{
	uint64_t *place = wait ? map_at(&f->waits, wait) : NULL;

	if (!wait)
		return 0;
	if (!place || !array_reserve(&f->wait_texts, &f->wait_capacity, f->wait_count + 1))
		return INTERN_FAILED;
	if (!*place) {
		f->wait_texts[f->wait_count++] = wait;
		*place = f->wait_count;
	}
	return *place;
}

static uint32_t frame_number(const struct firefox *f, struct track *t, uint32_t line, uint32_t wait)
{
	const struct source_line *l = &f->symbols->source_lines[line];
	struct track_function function = {l->function, l->file, l->start_line};
	struct track_frame frame = {line, wait,
				    intern_bytes(&t->functions, &function, sizeof(function))};

	return frame.function == INTERN_FAILED ? INTERN_FAILED
					       : intern_bytes(&t->frames, &frame, sizeof(frame));
}

static struct error *must_check add_stack(struct firefox *f, uint32_t row,
					  struct symbol_stack *stack)
{
	const struct profile_sample *sample = &f->profile->samples[row];
	struct track *t = &f->tracks[sample->state];
	uint32_t wait = wait_number(f, sample->wait), node = 0;
	struct error *err = symbols_stack(f->symbols, sample, stack);

	if (err || wait == INTERN_FAILED)
		return err ? err : &error_no_memory;
	for (size_t i = stack->count; i-- > 0;) {
		uint32_t line = f->symbols->lines[stack->frames[i]];
		uint32_t frame = frame_number(f, t, line, i ? 0 : wait);

		if (frame == INTERN_FAILED || !stack_tree_child(&t->tree, node, frame, &node))
			return &error_no_memory;
	}
	f->stacks[row] = node;
	return NULL;
}

static struct error *must_check add_stacks(struct firefox *f)
{
	_cleanup_symbol_stack_ struct symbol_stack stack = {0};
	struct error *err = NULL;

	f->stacks = calloc(f->profile->count + 1, sizeof(*f->stacks));
	if (!f->stacks)
		return &error_no_memory;
	for (int i = 0; i < PROFILE_STATES; i++)
		f->tracks[i].state = i;
	for (size_t i = 0; i < f->profile->count && !err; i++)
		err = add_stack(f, i, &stack);
	return err;
}

static size_t length_of(const struct intern *in)
{
	return in->count ? in->count - 1 : 0;
}

static const void *entry(const struct intern *in, size_t i)
{
	return in->strings[i + 1].data;
}

/* ---- columns ---- */

static void write_constant(const struct firefox *f, const char *name, size_t count,
			   const char *value)
{
	fprintf(f->out, "\"%s\":[", name);
	for (size_t i = 0; i < count; i++)
		fprintf(f->out, "%s%s", i ? "," : "", value);
	fputs("],", f->out);
}

static void write_column(const struct firefox *f, const char *name, size_t count,
			 uint64_t (*at)(const struct firefox *f, const struct track *t, size_t i),
			 const struct track *t)
{
	fprintf(f->out, "\"%s\":[", name);
	for (size_t i = 0; i < count; i++) {
		uint64_t value = at(f, t, i);

		if (value == NULL_NUMBER)
			fprintf(f->out, "%snull", i ? "," : "");
		else
			fprintf(f->out, "%s%" PRIu64, i ? "," : "", value);
	}
	fputs("],", f->out);
}

static void write_length(const struct firefox *f, size_t count)
{
	fprintf(f->out, "\"length\":%zu}", count);
}

static const struct source_line *line_of(const struct firefox *f, const struct track *t, size_t i)
{
	const struct track_frame *frame = entry(&t->frames, i);

	return &f->symbols->source_lines[frame->line];
}

static uint64_t frame_wait(const struct firefox *f, const struct track *t, size_t i)
{
	return ((const struct track_frame *)entry(&t->frames, i))->wait;
}

static uint64_t frame_function(const struct firefox *f, const struct track *t, size_t i)
{
	return ((const struct track_frame *)entry(&t->frames, i))->function - 1;
}

static uint64_t frame_line(const struct firefox *f, const struct track *t, size_t i)
{
	uint32_t line = line_of(f, t, i)->line;

	return line ? line : NULL_NUMBER;
}

static uint64_t function_name(const struct firefox *f, const struct track *t, size_t i)
{
	return ((const struct track_function *)entry(&t->functions, i))->name;
}

static uint64_t function_file(const struct firefox *f, const struct track *t, size_t i)
{
	uint32_t file = ((const struct track_function *)entry(&t->functions, i))->file;

	return file ? file : NULL_NUMBER;
}

static uint64_t function_line(const struct firefox *f, const struct track *t, size_t i)
{
	uint32_t line = ((const struct track_function *)entry(&t->functions, i))->start_line;

	return line ? line : NULL_NUMBER;
}

static uint64_t stack_frame(const struct firefox *f, const struct track *t, size_t i)
{
	return t->tree.nodes[i + 1].key - 1;
}

static uint64_t stack_prefix(const struct firefox *f, const struct track *t, size_t i)
{
	uint32_t parent = t->tree.nodes[i + 1].parent;

	return parent ? parent - 1 : NULL_NUMBER;
}

static void write_tables(const struct firefox *f, const struct track *t)
{
	size_t frames = length_of(&t->frames), functions = length_of(&t->functions);
	size_t stacks = t->tree.count ? t->tree.count - 1 : 0;
	char category[16];

	snprintf(category, sizeof(category), "%d", t->state + 1);
	fputs("\"frameTable\":{", f->out);
	write_constant(f, "address", frames, "-1");
	write_constant(f, "inlineDepth", frames, "0");
	write_constant(f, "category", frames, category);
	write_column(f, "subcategory", frames, frame_wait, t);
	write_column(f, "func", frames, frame_function, t);
	write_constant(f, "nativeSymbol", frames, "null");
	write_constant(f, "innerWindowID", frames, "0");
	write_column(f, "line", frames, frame_line, t);
	write_constant(f, "column", frames, "null");
	write_length(f, frames);
	fputs(",\n\"funcTable\":{", f->out);
	write_column(f, "name", functions, function_name, t);
	write_constant(f, "isJS", functions, "false");
	write_constant(f, "relevantForJS", functions, "false");
	write_constant(f, "resource", functions, "-1");
	write_column(f, "fileName", functions, function_file, t);
	write_column(f, "lineNumber", functions, function_line, t);
	write_constant(f, "columnNumber", functions, "null");
	write_length(f, functions);
	fputs(",\n\"stackTable\":{", f->out);
	write_column(f, "frame", stacks, stack_frame, t);
	write_column(f, "prefix", stacks, stack_prefix, t);
	write_length(f, stacks);
	fputs(",\n\"resourceTable\":{\"lib\":[],\"name\":[],\"host\":[],\"type\":[],\"length\":0},\n"
	      "\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],"
	      "\"length\":0},\n",
	      f->out);
}

/* ---- samples and markers ---- */

static void write_ms(const struct firefox *f, uint64_t ns)
{
	fprintf(f->out, "%" PRIu64 ".%06u", ns / 1000000, (unsigned int)(ns % 1000000));
}

static bool is_in(const struct firefox *f, const struct track *t, size_t piece)
{
	return f->profile->samples[f->order.pieces[piece].row].state == t->state;
}

static size_t write_stacks_of(const struct firefox *f, const struct track *t)
{
	size_t count = 0;

	fputs("\"samples\":{\"stack\":[", f->out);
	for (size_t i = 0; i < f->order.count; i++)
		if (is_in(f, t, i))
			fprintf(f->out, "%s%" PRIu32, count++ ? "," : "",
				f->stacks[f->order.pieces[i].row] - 1);
	return count;
}

/* The sum of the column that begins with this piece; *ret_end is the index behind its last
 * piece. */
static double column_sum(const struct firefox *f, const struct track *t, size_t first,
			 size_t *ret_end)
{
	const struct time_piece *pieces = f->order.pieces;
	double sum = 0;
	size_t i = first;

	for (; i < f->order.count && pieces[i].column == pieces[first].column; i++)
		if (is_in(f, t, i))
			sum += (double)pieces[i].value;
	*ret_end = i;
	return sum;
}

static void write_times(const struct firefox *f, const struct track *t)
{
	const char *separator = "";

	fputs("],\n\"time\":[", f->out);
	for (size_t i = 0, end; i < f->order.count; i = end) {
		uint64_t begin = f->order.pieces[i].column * f->order.width_ns;
		double sum = column_sum(f, t, i, &end), before = 0;

		for (; i < end; i++) {
			if (!is_in(f, t, i))
				continue;
			fputs(separator, f->out);
			write_ms(f, begin + (uint64_t)(before / sum * (double)f->order.width_ns));
			before += (double)f->order.pieces[i].value;
			separator = ",";
		}
	}
}

static void write_samples(const struct firefox *f, const struct track *t)
{
	size_t count = write_stacks_of(f, t);
	const char *separator = "";

	write_times(f, t);
	fputs("],\n\"weight\":[", f->out);
	for (size_t i = 0; i < f->order.count; i++) {
		if (!is_in(f, t, i))
			continue;
		fputs(separator, f->out);
		if (f->order.timed)
			write_ms(f, f->order.pieces[i].value);
		else
			fprintf(f->out, "%" PRIu64, f->order.pieces[i].value);
		separator = ",";
	}
	fprintf(f->out, "],\"weightType\":\"%s\",", f->order.timed ? "tracing-ms" : "samples");
	write_length(f, count);
}

/* The index of a wait reason among the strings: wait reasons follow the symbols' strings. */
static size_t wait_string(const struct firefox *f, uint32_t row)
{
	uint32_t wait = f->profile->samples[row].wait;

	return f->symbols->strings.count + (wait ? *map_find(&f->waits, wait) : 0);
}

static void write_marker_data(const struct firefox *f, const struct wait_span *span)
{
	uint64_t width = f->profile->timeline.width_ns * (span->end - span->begin);

	fprintf(f->out, "{\"type\":\"wait\",\"goroutines\":%.2f,\"cause\":{\"stack\":%" PRIu32 "}}",
		span->ns / (double)width, f->stacks[span->row] - 1);
}

static void write_span_times(const struct firefox *f, const struct wait_spans *spans, bool ends)
{
	for (size_t i = 0; i < spans->count; i++) {
		fputs(i ? "," : "", f->out);
		write_ms(f, f->profile->timeline.width_ns *
				    (ends ? spans->items[i].end : spans->items[i].begin));
	}
}

static void write_markers(const struct firefox *f, const struct wait_spans *spans)
{
	fputs(",\n\"markers\":{\"data\":[", f->out);
	for (size_t i = 0; i < spans->count; i++) {
		fputs(i ? ",\n" : "", f->out);
		write_marker_data(f, &spans->items[i]);
	}
	fputs("],\n\"name\":[", f->out);
	for (size_t i = 0; i < spans->count; i++)
		fprintf(f->out, "%s%zu", i ? "," : "", wait_string(f, spans->items[i].row));
	fputs("],\n\"startTime\":[", f->out);
	write_span_times(f, spans, false);
	fputs("],\n\"endTime\":[", f->out);
	write_span_times(f, spans, true);
	fputs("],\n", f->out);
	write_constant(f, "phase", spans->count, "1"); /* an interval */
	write_constant(f, "category", spans->count, "4");
	write_length(f, spans->count);
}

static struct error *must_check write_thread(const struct firefox *f, const struct track *t)
{
	_cleanup_wait_spans_ struct wait_spans spans = {0};
	struct error *err =
		t->state == PROFILE_WAITING ? wait_spans_find(f->profile, &spans) : NULL;

	if (err)
		return err;
	fprintf(f->out,
		"{\"processType\":\"default\",\"processStartupTime\":0,\"processShutdownTime\":null,"
		"\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],\"name\":\"%s\","
		"\"isMainThread\":false,\"showMarkersInTimeline\":%s,\"pid\":\"1\",\"tid\":%d,\n"
		"\"processName\":",
		profile_state_name(t->state), spans.count ? "true" : "false", t->state + 1);
	err = json_text_write(f->profile->command ? f->profile->command : "", f->out);
	fputs(",\n", f->out);
	write_tables(f, t);
	write_samples(f, t);
	write_markers(f, &spans);
	fputc('}', f->out);
	return err;
}

/* ---- the file ---- */

static struct error *must_check write_wait_names(const struct firefox *f)
{
	struct error *err = NULL;

	for (uint32_t i = 0; i < f->wait_count && !err; i++) {
		fputc(',', f->out);
		err = json_text_write(intern_get(&f->profile->strings, f->wait_texts[i]), f->out);
	}
	return err;
}

static struct error *must_check write_categories(const struct firefox *f)
{
	static const char *const colors[PROFILE_STATES] = {"orange", "yellow", "purple", "blue"};
	struct error *err = NULL;

	fputs("\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]}",
	      f->out);
	for (int i = 0; i < PROFILE_STATES && !err; i++) {
		fprintf(f->out, ",\n{\"name\":\"%s\",\"color\":\"%s\",\"subcategories\":[\"Other\"",
			profile_state_name(i), colors[i]);
		if (i == PROFILE_WAITING)
			err = write_wait_names(f);
		fputs("]}", f->out);
	}
	fputs("],\n", f->out);
	return err;
}

static struct error *must_check write_meta(const struct firefox *f)
{
	const char *name = f->profile->command ? f->profile->command : "";
	struct error *err;

	fprintf(f->out,
		"{\"meta\":{\"preprocessedProfileVersion\":%d,\"version\":24,\"processType\":0,"
		"\"stackwalk\":1,\"debug\":false,\"symbolicated\":true,"
		"\"sourceCodeIsNotOnSearchfox\":true,\"usesOnlyOneStackType\":true,\n"
		"\"extensions\":{\"id\":[],\"name\":[],\"baseURL\":[],\"length\":0},\n"
		"\"importedFrom\":\"gospect " GOSPECT_VERSION "\",\"product\":",
		VERSION);
	err = json_text_write(name, f->out);
	fputs(",\"interval\":", f->out);
	write_ms(f, f->order.width_ns ? f->order.width_ns : TIMELINE_WIDTH_NS);
	fputs(",\"startTime\":", f->out);
	write_ms(f, f->profile->time_ns);
	fputs(",\n\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"},\n"
	      "\"markerSchema\":[{\"name\":\"wait\",\"display\":[\"marker-chart\",\"marker-table\"],"
	      "\"chartLabel\":\"{marker.name}\",\"tooltipLabel\":\"{marker.name}\","
	      "\"tableLabel\":\"{marker.name}: {marker.data.goroutines} goroutines\","
	      "\"fields\":[{\"key\":\"goroutines\",\"label\":\"Goroutines\","
	      "\"format\":\"decimal\"}]}],\n",
	      f->out);
	if (!err)
		err = write_categories(f);
	fputs("\"pausedRanges\":[]},\n\"libs\":[],\"pages\":[],\n", f->out);
	return err;
}

static struct error *must_check write_strings(const struct firefox *f)
{
	struct error *err = NULL;

	fputs("\"shared\":{\"stringArray\":[", f->out);
	for (size_t i = 0; i < f->symbols->strings.count && !err; i++) {
		err = json_text_write(intern_get(&f->symbols->strings, i), f->out);
		fputs(",\n", f->out);
	}
	fputs("\"waiting\"", f->out);
	if (!err)
		err = write_wait_names(f);
	fputs("]}}\n", f->out);
	return err;
}

static struct error *firefox_write(const struct profile *p, const struct profile_symbols *symbols,
				   FILE *out)
{
	_cleanup_(
		firefox_release) struct firefox f = {.profile = p, .symbols = symbols, .out = out};
	struct error *err = time_order_make(p, &f.order);
	const char *separator = "";

	if (!err)
		err = add_stacks(&f);
	if (!err)
		err = write_meta(&f);
	fputs("\"threads\":[", out);
	for (int i = 0; i < PROFILE_STATES && !err; i++) {
		if (!f.tracks[i].tree.count)
			continue;
		fprintf(out, "%s\n", separator);
		err = write_thread(&f, &f.tracks[i]);
		separator = ",";
	}
	fputs("],\n", out);
	return err ? err : write_strings(&f);
}

const struct profile_format profile_format_firefox = {
	.name = "firefox",
	.write = firefox_write,
};
