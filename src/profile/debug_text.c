/*
 * The text that runtime/pprof writes with debug=1 (pprof.go: printCountProfile, writeHeapInternal,
 * writeProfileInternal), of the profiles that the runtime keeps. go tool pprof reads it, too.
 *
 * Values are scaled up from what was sampled, so the rate in the headers is 1, and a cycle is a
 * nanosecond. Statistics of memory (runtime.MemStats) are not there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/printable.h"
#include "base/strbuf.h"
#include "profile/profile.h"
#include "profile/profile_symbols.h"

struct debug_text {
	const struct profile *profile;
	const struct profile_symbols *symbols;
	struct strbuf line;
	FILE *out;
};

static void debug_text_release(struct debug_text *t)
{
	strbuf_release(&t->line);
}

/* The address of the call: one less than the return address. */
static uint64_t address_of(const struct debug_text *t, uint64_t word)
{
	return profile_word_of(t->profile, word).address;
}

/* The runtime leaves wrappers out, but not runtime.goexit. */
static void add_pcs(struct debug_text *t, const struct profile_sample *s)
{
	const struct go_frame *callee = NULL;

	for (uint32_t i = 0; i < s->depth; i++) {
		const struct symbol_word *word = symbols_word(t->symbols, s->pcs[i]);
		bool visible = symbols_shown(t->symbols, word, &callee);

		if (!stack_pc_is_pseudo(s->pcs[i]) &&
		    (visible || !t->symbols->frames[word->first].wrapper))
			strbuf_addf(&t->line, " %#" PRIx64, address_of(t, s->pcs[i]) + 1);
	}
	strbuf_addc(&t->line, '\n');
}

/* ---- frames ---- */

static void add_frame(struct debug_text *t, uint64_t address, const struct go_frame *f)
{
	strbuf_addf(&t->line, "#\t%#" PRIx64 "\t", address);
	printable_adds(&t->line, f->function);
	if (f->entry && address >= f->entry)
		strbuf_addf(&t->line, "+%#" PRIx64, address - f->entry);
	strbuf_addc(&t->line, '\t');
	printable_adds(&t->line, f->file ? f->file : "");
	strbuf_addf(&t->line, ":%d\n", f->line);
}

/* printStackRecord(): the runtime's functions at the beginning are hidden. True: some frame was
 * shown. */
static bool add_frames(struct debug_text *t, const struct profile_sample *s, bool all)
{
	const struct go_frame *callee = NULL;
	bool shown = all;

	for (uint32_t i = 0; i < s->depth; i++) {
		const struct symbol_word *word = symbols_word(t->symbols, s->pcs[i]);
		uint64_t visible = symbols_shown(t->symbols, word, &callee);
		uint64_t address = stack_pc_is_pseudo(s->pcs[i]) ? 0 : address_of(t, s->pcs[i]);

		if (!word->location.count) {
			strbuf_addf(&t->line, "#\t%#" PRIx64 "\n", address);
			shown = true;
		}
		for (size_t k = 0; k < word->location.count; k++) {
			const struct go_frame *f = &t->symbols->frames[word->first + k];

			if (!(visible >> k & 1) || (!shown && !strncmp(f->function, "runtime.", 8)))
				continue;
			shown = true;
			add_frame(t, address, f);
		}
	}
	return shown;
}

static void add_stack(struct debug_text *t, const struct profile_sample *s, bool all)
{
	if (!add_frames(t, s, all))
		add_frames(t, s, true);
	strbuf_addc(&t->line, '\n');
}

/* ---- labels ---- */

static void add_quoted(struct strbuf *sb, const char *text)
{
	strbuf_addc(sb, '"');
	while (*text) {
		size_t plain = strcspn(text, "\"\\");

		printable_add(sb, text, plain);
		text += plain;
		if (*text) {
			strbuf_addc(sb, '\\');
			strbuf_addc(sb, *text++);
		}
	}
	strbuf_addc(sb, '"');
}

static void add_labels(struct debug_text *t, const struct profile_sample *s)
{
	const struct intern *strings = &t->profile->strings;

	if (!s->label_count)
		return;
	strbuf_adds(&t->line, "# labels: {");
	for (uint32_t i = 0; i < s->label_count; i++) {
		strbuf_adds(&t->line, i ? ", " : "");
		add_quoted(&t->line, intern_get(strings, s->labels[i].key));
		strbuf_addc(&t->line, ':');
		add_quoted(&t->line, intern_get(strings, s->labels[i].value));
	}
	strbuf_adds(&t->line, "}\n");
}

/* ---- samples ---- */

/* The largest first, by the value that the profile is sorted by. */
struct order {
	int64_t value;
	size_t sample;
};

static int compare(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return (x->sample > y->sample) - (x->sample < y->sample);
}

static struct order *order_create(const struct profile *p, size_t value)
{
	struct order *order = calloc(p->count + 1, sizeof(*order));

	for (size_t i = 0; order && i < p->count; i++)
		order[i] = (struct order){p->values[i].values[value], i};
	if (order)
		qsort(order, p->count, sizeof(*order), compare);
	return order;
}

static void add_memory_values(struct strbuf *sb, const int64_t *v)
{
	strbuf_addf(sb, "%" PRId64 ": %" PRId64 " [%" PRId64 ": %" PRId64 "] @", v[2], v[3], v[0],
		    v[1]);
}

/* The number behind heap/ is twice the rate. */
static void add_memory_header(struct debug_text *t)
{
	int64_t total[PROFILE_MOST_VALUES] = {0};

	for (size_t i = 0; i < t->profile->count; i++)
		for (size_t k = 0; k < PROFILE_MOST_VALUES; k++)
			total[k] += t->profile->values[i].values[k];
	strbuf_adds(&t->line, "heap profile: ");
	add_memory_values(&t->line, total);
	strbuf_adds(&t->line, " heap/2\n");
}

static void add_memory_sample(struct debug_text *t, size_t i)
{
	add_memory_values(&t->line, t->profile->values[i].values);
	add_pcs(t, &t->profile->samples[i]);
	add_stack(t, &t->profile->samples[i], false);
}

static void add_contention_header(struct debug_text *t)
{
	bool is_mutex = !strcmp(t->profile->runtime_name, "mutex");

	strbuf_addf(&t->line, "--- %s:\ncycles/second=1000000000\n%s",
		    is_mutex ? "mutex" : "contention", is_mutex ? "sampling period=1\n" : "");
}

static void add_contention_sample(struct debug_text *t, size_t i)
{
	const int64_t *v = t->profile->values[i].values;

	strbuf_addf(&t->line, "%" PRId64 " %" PRId64 " @", v[1], v[0]);
	add_pcs(t, &t->profile->samples[i]);
	add_stack(t, &t->profile->samples[i], true);
}

static void add_count_header(struct debug_text *t)
{
	int64_t total = 0;

	for (size_t i = 0; i < t->profile->count; i++)
		total += t->profile->values[i].values[0];
	strbuf_addf(&t->line, "%s profile: total %" PRId64 "\n", t->profile->runtime_name, total);
}

static void add_count_sample(struct debug_text *t, size_t i)
{
	strbuf_addf(&t->line, "%" PRId64 " @", t->profile->values[i].values[0]);
	add_pcs(t, &t->profile->samples[i]);
	add_labels(t, &t->profile->samples[i]);
	add_stack(t, &t->profile->samples[i], false);
}

static struct error *must_check flush(struct debug_text *t)
{
	if (t->line.failed)
		return &error_no_memory;
	fwrite(t->line.data, 1, t->line.length, t->out);
	strbuf_reset(&t->line);
	return NULL;
}

static struct error *debug_text_write(const struct profile *p,
				      const struct profile_symbols *symbols, FILE *out)
{
	static const struct {
		void (*header)(struct debug_text *t);
		void (*sample)(struct debug_text *t, size_t i);
		size_t value; /* that samples are sorted by */
	} kinds[] = {{add_count_header, add_count_sample, 0},
		     {add_contention_header, add_contention_sample, 1},
		     {add_memory_header, add_memory_sample, 3}};
	_cleanup_(debug_text_release) struct debug_text t = {.profile = p,
							     .symbols = symbols,
							     .line = STRBUF_INIT,
							     .out = out};
	size_t kind = p->type_count > 2 ? 2 : p->type_count - 1;
	_cleanup_free_ struct order *order = NULL;
	struct error *err;

	if (!p->type_count || !p->runtime_name)
		return error_format(ERROR_USAGE,
				    "only profiles that the Go runtime keeps have this text");
	order = order_create(p, kinds[kind].value);
	if (!order)
		return &error_no_memory;
	kinds[kind].header(&t);
	err = flush(&t);
	for (size_t i = 0; !err && i < p->count; i++) {
		kinds[kind].sample(&t, order[i].sample);
		err = flush(&t);
	}
	return err;
}

const struct profile_format profile_format_debug_text = {
	.name = "debug-text",
	.write = debug_text_write,
};
