/*
 * The flame graph: one HTML file that needs no network. The page (page/) is built into gospect. It
 * holds the profile as JSON, in which the numbers are packed:
 *
 *   {"version":4, "unit": only of values that the runtime keeps: "bytes", "nanoseconds" or "count",
 *    "command":, "go_version":, "gospect":, "time_ns":, "duration_ns":, "period_ns":,
 *    "comments":[text...], "label_sets":[[key,value,...]...],
 *    "stands_out":[{"text":, "focus":, "kinds":[...], "waits":[...], "idle":}...],
 *    "sources":[{"file":text, "first":number of its first line here, "lines":[text...]}...],
 *    "timeline":{"width_ns": of a column, "columns":},
 *    "goroutines":{"rows":, "parts":, "steps": their numbers, "width_ns":, "columns":, "others":,
 *    "others_cpu_ns":, "others_wall_ns":} where single goroutines are known (goroutine_rows.h),
 *    "requests":[{"name":, "goroutine":, "begin":, "end":, "parts":[[begin, end, goroutine,
 *    start function, state, wait reason, function, line, depth]...]}...] with texts as places in
 *    strings, and the state as in samples, 4: not known (request_paths.h),
 *    "strings":[text...], "sizes":{"nodes":, "lines":, "samples":, "steps":},
 *    "packed":"base64 of zlib of the numbers"}
 *
 * A page that compares has the data of the earlier profile in a second element, which is empty
 * otherwise.
 *
 * Numbers are unsigned LEB128, column by column:
 *
 *   lines    function, file (places in strings), line
 *   nodes    of a tree of stacks, node 0 (the root) left out: node - parent; its line
 *   samples  node, state, wait reason (in strings), label set, 1 when it waits for work, count,
 *            wall_ns, cpu_ns, idle_count, idle_ns, longest_ns, longest_goroutine
 *   steps    (timeline.h) sample - that of the step before, column, microseconds
 *   rows     of goroutines: id, start function (in strings), longest wait in ns
 *   parts    of their time: row, sample, ns
 *   steps    of these parts: part - that of the step before, column, microseconds
 *
 * Text comes from the target. json_text.h prevents that it ends the script element, and the page
 * shows it as text only.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "profile/awaiting.h"
#include "profile/flame_page.h"
#include "profile/json_text.h"
#include "profile/packed.h"
#include "profile/profile.h"
#include "profile/profile_symbols.h"
#include "profile/stack_tree.h"
#include "profile/stands_out.h"

struct page_data {
	const struct profile *profile;
	const struct profile_symbols *symbols;
	struct stack_tree tree; /* keys are lines of source */
	uint32_t *leaves;       /* each sample's node */
	uint32_t *waits;        /* each sample's wait reason, in strings */
	uint32_t *label_sets;   /* each sample's set of labels, in sets */
	bool *awaiting;         /* for each sample: whether it waits for work */
	struct intern strings;  /* functions, files and wait reasons */
	struct intern sets;     /* the bytes of struct profile_label; 0 is no labels */
	struct stands_out stands_out;
	struct packed numbers;
};

static void page_data_release(struct page_data *d)
{
	stack_tree_release(&d->tree);
	free(d->leaves);
	free(d->waits);
	free(d->label_sets);
	free(d->awaiting);
	intern_release(&d->strings);
	intern_release(&d->sets);
	stands_out_release(&d->stands_out);
}

static struct error *add_sample(struct page_data *d, size_t i, struct symbol_stack *stack)
{
	const struct profile_sample *sample = &d->profile->samples[i];
	struct error *err = symbols_stack(d->symbols, sample, stack);
	const struct intern *texts = &d->profile->strings;

	if (err)
		return err;
	for (size_t j = stack->count; j-- > 0;)
		if (!stack_tree_child(&d->tree, d->leaves[i], d->symbols->lines[stack->frames[j]],
				      &d->leaves[i]))
			return &error_no_memory;
	d->awaiting[i] = sample_awaits_work(d->profile, d->symbols, sample, stack);
	d->label_sets[i] = intern_bytes(&d->sets, sample->labels,
					sample->label_count * sizeof(*sample->labels));
	if (sample->wait && sample->wait < texts->count)
		d->waits[i] = utf8_intern(&d->strings, texts->strings[sample->wait].data,
					  texts->strings[sample->wait].length);
	if (d->label_sets[i] == INTERN_FAILED || d->waits[i] == INTERN_FAILED)
		return &error_no_memory;
	return NULL;
}

static struct error *add_samples(struct page_data *d)
{
	_cleanup_symbol_stack_ struct symbol_stack stack = {0};
	size_t count = d->profile->count + 1;
	struct error *err = NULL;

	d->leaves = calloc(count, sizeof(*d->leaves));
	d->waits = calloc(count, sizeof(*d->waits));
	d->label_sets = calloc(count, sizeof(*d->label_sets));
	d->awaiting = calloc(count, sizeof(*d->awaiting));
	if (!d->leaves || !d->waits || !d->label_sets || !d->awaiting)
		return &error_no_memory;
	for (size_t i = 0; i < d->profile->count && !err; i++)
		err = add_sample(d, i, &stack);
	return err;
}

/* Numbers of their texts; interned again, each is the same. */
static uint32_t text_of(struct page_data *d, const struct intern *from, uint32_t number)
{
	return intern_string(&d->strings, intern_get(from, number));
}

static bool add_part_texts(struct page_data *d, const struct request_path_part *part)
{
	const struct intern *texts = &d->profile->strings;

	return text_of(d, texts, part->start) != INTERN_FAILED &&
	       text_of(d, texts, part->wait) != INTERN_FAILED &&
	       text_of(d, texts, part->function) != INTERN_FAILED;
}

/* The texts of lines, goroutines and paths, as texts are written before numbers. */
static struct error *add_texts(struct page_data *d)
{
	const struct profile_symbols *s = d->symbols;
	const struct goroutine_rows *g = &d->profile->goroutines;
	bool added = true;

	for (size_t i = 0; i < s->source_line_count && added; i++)
		added = text_of(d, &s->strings, s->source_lines[i].function) != INTERN_FAILED;
	for (size_t i = 0; i < s->source_line_count && added; i++)
		added = text_of(d, &s->strings, s->source_lines[i].file) != INTERN_FAILED;
	for (size_t i = 0; i < g->count && added; i++)
		added = text_of(d, &d->profile->strings, g->rows[i].start) != INTERN_FAILED;
	for (size_t i = 0; i < d->profile->requests.part_count && added; i++)
		added = add_part_texts(d, &d->profile->requests.parts[i]);
	return added ? NULL : &error_no_memory;
}

/* ---- numbers ---- */

static void add_number(struct page_data *d, uint64_t value)
{
	packed_add(&d->numbers, value);
}

static void add_lines(struct page_data *d)
{
	const struct profile_symbols *s = d->symbols;

	for (size_t i = 0; i < s->source_line_count; i++)
		add_number(d, text_of(d, &s->strings, s->source_lines[i].function));
	for (size_t i = 0; i < s->source_line_count; i++)
		add_number(d, text_of(d, &s->strings, s->source_lines[i].file));
	for (size_t i = 0; i < s->source_line_count; i++)
		add_number(d, s->source_lines[i].line);
}

static void add_nodes(struct page_data *d)
{
	for (size_t i = 1; i < d->tree.count; i++)
		add_number(d, i - d->tree.nodes[i].parent);
	for (size_t i = 1; i < d->tree.count; i++)
		add_number(d, d->tree.nodes[i].key);
}

static void add_sample_columns(struct page_data *d)
{
	const struct profile_sample *s = d->profile->samples;
	size_t count = d->profile->count;

	for (size_t i = 0; i < count; i++)
		add_number(d, d->leaves[i]);
	for (size_t i = 0; i < count; i++)
		add_number(d, s[i].state);
	for (size_t i = 0; i < count; i++)
		add_number(d, d->waits[i]);
	for (size_t i = 0; i < count; i++)
		add_number(d, d->label_sets[i]);
	for (size_t i = 0; i < count; i++)
		add_number(d, d->awaiting[i]);
	for (size_t i = 0; i < count; i++)
		add_number(d, s[i].count);
	for (size_t i = 0; i < count; i++)
		add_number(d, s[i].wall_ns);
	for (size_t i = 0; i < count; i++)
		add_number(d, s[i].cpu_ns);
	for (size_t i = 0; i < count; i++)
		add_number(d, s[i].idle_count);
	for (size_t i = 0; i < count; i++)
		add_number(d, s[i].idle_ns);
	for (size_t i = 0; i < count; i++)
		add_number(d, s[i].longest_ns);
	for (size_t i = 0; i < count; i++)
		add_number(d, s[i].longest_goroutine);
}

static struct error *add_steps(struct page_data *d, const struct timeline *t)
{
	_cleanup_free_ struct timeline_step *steps = NULL;
	size_t count = 0;
	struct error *err = timeline_steps(t, &steps, &count);

	for (size_t i = 0; i < count; i++)
		add_number(d, steps[i].row - (i ? steps[i - 1].row : 0));
	for (size_t i = 0; i < count; i++)
		add_number(d, steps[i].column);
	for (size_t i = 0; i < count; i++)
		add_number(d, (steps[i].ns + 500) / 1000);
	return err;
}

static void add_goroutines(struct page_data *d)
{
	const struct goroutine_rows *g = &d->profile->goroutines;

	for (size_t i = 0; i < g->count; i++)
		add_number(d, g->rows[i].goroutine);
	for (size_t i = 0; i < g->count; i++)
		add_number(d, text_of(d, &d->profile->strings, g->rows[i].start));
	for (size_t i = 0; i < g->count; i++)
		add_number(d, g->rows[i].longest_ns);
	for (size_t i = 0; i < g->part_count; i++)
		add_number(d, g->parts[i].row);
	for (size_t i = 0; i < g->part_count; i++)
		add_number(d, g->parts[i].sample);
	for (size_t i = 0; i < g->part_count; i++)
		add_number(d, g->parts[i].ns);
}

static struct error *add_numbers(struct page_data *d)
{
	struct error *err;

	add_lines(d);
	add_nodes(d);
	add_sample_columns(d);
	err = add_steps(d, &d->profile->timeline);
	add_goroutines(d);
	return err ? err : add_steps(d, &d->profile->goroutines.timeline);
}

static struct error *write_numbers(struct page_data *d, FILE *out)
{
	struct error *err, *failed;

	fputs(",\n\"packed\":\"", out);
	err = packed_begin(&d->numbers, out);
	if (err)
		return err;
	err = add_numbers(d);
	failed = packed_end(&d->numbers);
	fputc('"', out);
	return err ? err : failed;
}

/* ---- the rest ---- */

static struct error *write_member(const char *name, const char *text, FILE *out)
{
	fprintf(out, ",\n\"%s\":", name);
	return json_text_write(text ? text : "", out);
}

static const char *unit_of(const struct profile *p)
{
	if (p->unit == PROFILE_BYTES)
		return "bytes";
	return p->type_count > 1 ? "nanoseconds" : "count";
}

static struct error *write_header(const struct profile *p, FILE *out)
{
	struct error *err;

	fprintf(out,
		"{\"version\":4,\n\"time_ns\":%" PRIu64 ",\n\"duration_ns\":%" PRIu64
		",\n\"period_ns\":%" PRIu64,
		p->time_ns, p->duration_ns, p->period_ns);
	/* Of the runtime's own values; else there are goroutines, their states and their time. */
	if (p->type_count || p->unit == PROFILE_BYTES)
		fprintf(out, ",\n\"unit\":\"%s\"", unit_of(p));
	err = write_member("gospect", GOSPECT_VERSION, out);
	if (!err)
		err = write_member("command", p->command, out);
	if (!err)
		err = write_member("go_version", p->go_version, out);
	fputs(",\n\"comments\":[", out);
	for (size_t i = 0; i < p->comment_count && !err; i++) {
		fputs(i ? ",\n" : "", out);
		err = json_text_write(p->comments[i], out);
	}
	fputc(']', out);
	return err;
}

static struct error *write_label_set(const struct page_data *d, const struct interned *set,
				     FILE *out)
{
	const struct profile_label *labels = (const struct profile_label *)set->data;
	const struct intern *in = &d->profile->strings;
	struct error *err = NULL;

	for (size_t i = 0; i < set->length / sizeof(*labels) && !err; i++) {
		const struct interned *key = &in->strings[labels[i].key];
		const struct interned *value = &in->strings[labels[i].value];

		fputs(i ? "," : "", out);
		err = json_text_write_bytes(key->data, key->length, out);
		fputc(',', out);
		if (!err)
			err = json_text_write_bytes(value->data, value->length, out);
	}
	return err;
}

static struct error *write_label_sets(const struct page_data *d, FILE *out)
{
	struct error *err = NULL;

	fputs(",\n\"label_sets\":[", out);
	for (size_t i = 0; i < d->sets.count && !err; i++) {
		fputs(i ? ",\n[" : "[", out);
		err = write_label_set(d, &d->sets.strings[i], out);
		fputc(']', out);
	}
	fputc(']', out);
	return err;
}

static struct error *write_strings(const struct page_data *d, FILE *out)
{
	struct error *err = NULL;

	fputs(",\n\"strings\":[", out);
	for (size_t i = 0; i < d->strings.count && !err; i++) {
		fputs(i ? ",\n" : "", out);
		err = json_text_write_bytes(d->strings.strings[i].data,
					    d->strings.strings[i].length, out);
	}
	fprintf(out, "],\n\"sizes\":{\"nodes\":%zu,\"lines\":%zu,\"samples\":%zu,\"steps\":%zu}",
		d->tree.count, d->symbols->source_line_count, d->profile->count,
		timeline_step_count(&d->profile->timeline));
	return err;
}

static struct error *write_sentence(const struct sentence *s, FILE *out)
{
	struct error *err;

	fputs("{\"text\":", out);
	err = json_text_write(s->text, out);
	fputs(",\"focus\":", out);
	if (!err)
		err = json_text_write(s->focus, out);
	fprintf(out, ",\"kinds\":[%s%s%s],\"waits\":[", *s->kind ? "\"" : "", s->kind,
		*s->kind ? "\"" : "");
	if (!err && s->wait)
		err = json_text_write(s->wait, out);
	fprintf(out, "],\"idle\":%s}", s->idle ? "true" : "false");
	return err;
}

static struct error *write_stands_out(const struct page_data *d, FILE *out)
{
	struct error *err = NULL;

	fputs(",\n\"stands_out\":[", out);
	for (size_t i = 0; i < d->stands_out.count && !err; i++) {
		fputs(i ? ",\n" : "", out);
		err = write_sentence(&d->stands_out.sentences[i], out);
	}
	fputc(']', out);
	return err;
}

static struct error *write_fragment(const struct source_fragment *f, FILE *out)
{
	const char *at = f->text, *end = f->text + f->size;
	struct error *err;

	fputs("{\"file\":", out);
	err = json_text_write(f->file, out);
	fprintf(out, ",\"first\":%" PRIu32 ",\"lines\":[", f->first);
	for (uint32_t i = 0; i < f->count && at < end && !err; i++) {
		const char *newline = memchr(at, '\n', end - at);
		size_t length = newline ? newline - at : end - at;

		fputs(i ? ",\n" : "", out);
		err = json_text_write_bytes(at, length, out);
		at += length + 1;
	}
	fputs("]}", out);
	return err;
}

static struct error *write_sources(const struct source_fragments *sources, FILE *out)
{
	struct error *err = NULL;

	fputs(",\n\"sources\":[", out);
	for (size_t i = 0; i < sources->count && !err; i++) {
		fputs(i ? ",\n" : "", out);
		err = write_fragment(&sources->items[i], out);
	}
	fputc(']', out);
	return err;
}

static void write_goroutines(const struct page_data *d, FILE *out)
{
	const struct goroutine_rows *g = &d->profile->goroutines;

	if (g->count)
		fprintf(out,
			",\n\"goroutines\":{\"rows\":%zu,\"parts\":%zu,\"steps\":%zu,"
			"\"width_ns\":%" PRIu64 ",\"columns\":%" PRIu32 ",\"others\":%" PRIu64
			",\"others_cpu_ns\":%" PRIu64 ",\"others_wall_ns\":%" PRIu64 "}",
			g->count, g->part_count, timeline_step_count(&g->timeline),
			g->timeline.width_ns, g->timeline.columns, g->others, g->others_cpu_ns,
			g->others_wall_ns);
}

static void write_part(struct page_data *d, const struct request_path_part *part, FILE *out)
{
	const struct intern *texts = &d->profile->strings;

	fprintf(out,
		"[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%u,%" PRIu32 ",%" PRIu32
		",%" PRIu32 ",%" PRIu32 "]",
		part->begin, part->end, part->goroutine, text_of(d, texts, part->start),
		part->state, text_of(d, texts, part->wait), text_of(d, texts, part->function),
		part->line, part->depth);
}

static struct error *write_request(struct page_data *d, const struct request_path *request,
				   FILE *out)
{
	struct error *err;

	fputs("{\"name\":", out);
	err = json_text_write(intern_get(&d->profile->strings, request->name), out);
	fprintf(out,
		",\"goroutine\":%" PRIu64 ",\"begin\":%" PRIu64 ",\"end\":%" PRIu64 ",\"parts\":[",
		request->goroutine, request->begin, request->end);
	for (size_t i = 0; i < request->count && !err; i++) {
		fputs(i ? "," : "", out);
		write_part(d, &d->profile->requests.parts[request->first + i], out);
	}
	fputs("]}", out);
	return err;
}

static struct error *write_requests(struct page_data *d, FILE *out)
{
	const struct request_paths *requests = &d->profile->requests;
	struct error *err = NULL;

	if (!requests->count)
		return NULL;
	fputs(",\n\"requests\":[", out);
	for (size_t i = 0; i < requests->count && !err; i++) {
		fputs(i ? ",\n" : "", out);
		err = write_request(d, &requests->items[i], out);
	}
	fputc(']', out);
	return err;
}

static struct error *write_data(struct page_data *d, FILE *out)
{
	struct error *err = write_header(d->profile, out);

	if (!err)
		err = write_label_sets(d, out);
	if (!err)
		err = write_stands_out(d, out);
	if (!err)
		err = write_sources(&d->profile->sources, out);
	fprintf(out, ",\n\"timeline\":{\"width_ns\":%" PRIu64 ",\"columns\":%" PRIu32 "}",
		d->profile->timeline.width_ns, d->profile->timeline.columns);
	write_goroutines(d, out);
	if (!err)
		err = write_requests(d, out);
	if (!err)
		err = write_strings(d, out);
	if (!err)
		err = write_numbers(d, out);
	fputs("}\n", out);
	return err;
}

static struct error *write_profile(const struct profile *p, const struct profile_symbols *symbols,
				   FILE *out)
{
	_cleanup_(page_data_release) struct page_data d = {.profile = p, .symbols = symbols};
	struct error *err = add_samples(&d);

	/* The tree is complete: only its nodes are written. */
	map_release(&d.tree.children);
	if (!err)
		err = add_texts(&d);
	if (!err)
		err = stands_out_find(p, symbols, &d.stands_out);
	return err ? err : write_data(&d, out);
}

struct error *html_write_diff(const struct profile *before,
			      const struct profile_symbols *before_symbols,
			      const struct profile *after,
			      const struct profile_symbols *after_symbols, FILE *out)
{
	struct error *err;

	fwrite(page_before_data, 1, page_before_data_size, out);
	err = write_profile(after, after_symbols, out);
	fwrite(page_between_data, 1, page_between_data_size, out);
	if (!err && before)
		err = write_profile(before, before_symbols, out);
	fwrite(page_after_data, 1, page_after_data_size, out);
	return err;
}

static struct error *html_write(const struct profile *p, const struct profile_symbols *symbols,
				FILE *out)
{
	return html_write_diff(NULL, NULL, p, symbols, out);
}

const struct profile_format profile_format_html = {
	.name = "html",
	.write = html_write,
};
