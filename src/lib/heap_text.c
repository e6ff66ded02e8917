/* The text that /debug/pprof of a program has with debug=1. */
#include <gospect/heap.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/printable.h"
#include "lib/error_api.h"
#include "lib/heap.h"
#include "lib/options.h"
#include "lib/profile_handle.h"
#include "lib/sink.h"
#include "memory/bucket_text.h"
#include "memory/memory_statistics.h"

/* From this minor version on, names of frames lack type arguments. */
#define FIRST_WITH_SHORT_NAMES 21
/* From this one on, the stack of a thread's creation is all of m.createstack, with its zeros. */
#define FIRST_WITH_WHOLE_STACKS 23
#define CREATE_DEPTH 32

static struct error *must_check write_memory(const struct gospect_target *t,
					     const struct bucket_text *text)
{
	_cleanup_runtime_buckets_ struct runtime_buckets b = {0};
	_cleanup_statistics_ struct memory_statistics s = {0};
	int64_t rate;
	struct error *err = memory_statistics_read(t->target, t->image, t->layout, &s);

	if (!err)
		err = heap_read_memory(t, &b, &rate);
	if (!err)
		err = bucket_text_heap(text, &b, rate);
	if (!err)
		memory_statistics_write(&s, text->out);
	return err;
}

static struct error *must_check write_blocking(struct gospect_target *t,
					       const struct bucket_text *text,
					       enum bucket_kind kind)
{
	_cleanup_runtime_buckets_ struct runtime_buckets b = {0};
	int64_t rate;
	double ticks;
	struct error *err = heap_read_blocking(t, kind, &b, &rate, &ticks);

	if (err)
		return err;
	return bucket_text_blocking(text, &b, kind == BUCKET_MUTEX ? rate : -1,
				    (int64_t)(ticks * 1e9 + 0.5));
}

/* ---- goroutines and threads ---- */

/* Equal stacks with equal labels. */
struct group {
	const struct profile_sample *sample;
	uint64_t *pcs; /* expanded */
	size_t depth;
	char *key; /* what stands behind the count */
};

struct groups {
	struct group *items;
	size_t count;
};

static void groups_release(struct groups *g)
{
	for (size_t i = 0; i < g->count; i++) {
		free(g->items[i].pcs);
		free(g->items[i].key);
	}
	free(g->items);
}
#define _cleanup_groups_ __attribute__((cleanup(groups_release)))

/* As %q, for text that printable_adds() has made harmless. */
static void add_quoted(struct strbuf *sb, const char *text)
{
	_cleanup_strbuf_ struct strbuf plain = STRBUF_INIT;

	printable_adds(&plain, text);
	strbuf_addc(sb, '"');
	for (const char *at = plain.data; *at; at++) {
		if (*at == '"')
			strbuf_addc(sb, '\\');
		strbuf_addc(sb, *at);
	}
	strbuf_addc(sb, '"');
}

static void add_labels(struct strbuf *sb, const struct profile *p, const struct profile_sample *s)
{
	strbuf_adds(sb, "\n# labels: {");
	for (uint32_t i = 0; i < s->label_count; i++) {
		strbuf_adds(sb, i ? ", " : "");
		add_quoted(sb, intern_get(&p->strings, s->labels[i].key));
		strbuf_addc(sb, ':');
		add_quoted(sb, intern_get(&p->strings, s->labels[i].value));
	}
	strbuf_addc(sb, '}');
}

/* `least`: zeros fill the stack up to this depth. */
static struct error *must_check make_group(const struct profile *p, const struct pclntab *functions,
					   const struct profile_sample *sample, size_t least,
					   struct group *ret)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	size_t capacity = 0;
	struct error *err = bucket_text_expand(functions, sample->pcs, sample->depth, &ret->pcs,
					       &capacity, &ret->depth);

	if (!err && !array_reserve(&ret->pcs, &capacity, ret->depth + least))
		err = &error_no_memory;
	if (err)
		return err;
	while (ret->depth < least)
		ret->pcs[ret->depth++] = 0;
	ret->sample = sample;
	for (size_t i = 0; i < ret->depth; i++)
		strbuf_addf(&key, " 0x%" PRIx64, ret->pcs[i]);
	if (sample->label_count)
		add_labels(&key, p, sample);
	ret->key = key.failed ? NULL : strdup(key.data);
	return ret->key ? NULL : &error_no_memory;
}

static int by_count(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->sample->count != y->sample->count)
		return x->sample->count < y->sample->count ? 1 : -1;
	return strcmp(x->key, y->key);
}

static struct error *must_check write_groups(const struct bucket_text *text, const char *name,
					     const struct profile *p, const struct groups *g)
{
	uint64_t total = 0;
	struct error *err = NULL;

	for (size_t i = 0; i < g->count; i++)
		total += g->items[i].sample->count;
	fprintf(text->out, "%s profile: total %" PRIu64 "\n", name, total);
	for (size_t i = 0; !err && i < g->count; i++) {
		const struct group *group = &g->items[i];

		fprintf(text->out, "%" PRIu64 " @%s\n", group->sample->count, group->key);
		err = bucket_text_frames(text, group->pcs, group->depth, false);
	}
	return err;
}

static struct error *must_check write_counts(struct gospect_target *t,
					     const struct bucket_text *text, uint32_t kind)
{
	bool of_threads = kind == GOSPECT_THREADCREATE;
	_cleanup_profile_ struct profile *p = profile_create();
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_groups_ struct groups g = {0};
	bool is_whole = of_threads && text->minor >= FIRST_WITH_WHOLE_STACKS;
	struct error *err = p ? NULL : &error_no_memory;

	if (!err)
		err = of_threads ? heap_add_threads(p, t)
				 : heap_add_goroutines(p, t, kind, &symbols);
	if (err)
		return err;
	g.items = calloc(p->count + 1, sizeof(*g.items));
	if (!g.items)
		return &error_no_memory;
	for (size_t i = 0; !err && i < p->count; i++)
		err = make_group(p, text->functions, &p->samples[i], is_whole ? CREATE_DEPTH : 0,
				 &g.items[g.count++]);
	if (err)
		return err;
	qsort(g.items, g.count, sizeof(*g.items), by_count);
	return write_groups(text, heap_kind_name(kind), p, &g);
}

/* ---- all ---- */

static struct error *must_check write_kind(struct gospect_target *t, uint32_t kind, FILE *out)
{
	const struct pclntab full = heap_functions(t);
	const struct bucket_text text = {
		.functions =
			t->layout->minor >= FIRST_WITH_SHORT_NAMES ? &t->image->functions : &full,
		.minor = t->layout->minor,
		.out = out,
	};

	switch (kind) {
	case GOSPECT_HEAP:
	case GOSPECT_ALLOCS:
		return write_memory(t, &text);
	case GOSPECT_BLOCK:
		return write_blocking(t, &text, BUCKET_BLOCK);
	case GOSPECT_MUTEX:
		return write_blocking(t, &text, BUCKET_MUTEX);
	default:
		return write_counts(t, &text, kind);
	}
}

struct gospect_error *gospect_heap_write_text(struct gospect_target *t, uint32_t kind,
					      struct gospect_sink sink)
{
	struct sink_stream out;
	struct error *err = target_check_cancel(t);

	if (!err && kind > GOSPECT_GOROUTINELEAK)
		err = error_format(ERROR_USAGE,
				   "invalid kind %u of profile; see enum gospect_heap_kind", kind);
	if (!err)
		err = sink_open(&sink, &out);
	if (err)
		return error_out(err);
	target_remark_stopped(t);
	err = write_kind(t, kind, out.file);
	if (err && err != &error_stopped)
		err = target_explain(t->target, err);
	return error_out(sink_close(&out, err));
}
