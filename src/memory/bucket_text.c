/*
 * Lines of frames are aligned as text/tabwriter does it: in each run of lines that have a column,
 * the column is as wide as its widest cell and one more, up to a multiple of 8, and is filled with
 * tabs.
 */
#include "memory/bucket_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/printable.h"

#define MOST_INLINED 64
#define TAB 8

/* pprof_*.go: the first minor version in which ... */
#define FIRST_WITH_UNEQUAL_BYTES 20   /* the header's bytes differ */
#define FIRST_WITH_SHORT_NAMES 21     /* names of frames lack type arguments */
#define FIRST_WITHOUT_INTERNAL 24     /* internal/runtime is the runtime's too */
#define FIRST_WITH_EXPANDED_BLOCKS 23 /* stacks of blocking are expanded when they are written */

/* A line of a frame. */
struct row {
	char pc[24];
	char *name; /* "main.f+0x1d"; NULL: no function is known */
	const char *file;
	int line;
};

struct rows {
	struct row *items;
	size_t count;
	size_t capacity;
};

static void rows_release(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free(rows->items[i].name);
	free(rows->items);
}

/* ---- frames ---- */

static bool is_runtime(const char *function, int minor)
{
	return !strncmp(function, "runtime.", 8) ||
	       (minor >= FIRST_WITHOUT_INTERNAL && !strncmp(function, "internal/runtime/", 17));
}

/* An address that no frame can have. */
static bool is_nonsense(uint64_t pc)
{
	return stack_pc_is_pseudo(pc) || pc & (STACK_PC_EXACT | STACK_PC_IN_KERNEL);
}

/* The innermost call at a return address; false: no function is there, and it has no line. */
static bool frame_at(const struct pclntab *functions, uint64_t pc, struct go_frame *ret)
{
	struct go_frame frames[MOST_INLINED];

	if (is_nonsense(pc) || !pclntab_frames(functions, pc, frames, ARRAY_SIZE(frames)))
		return false;
	*ret = frames[0];
	return true;
}

static struct error *must_check add_row(struct rows *rows, uint64_t pc, const struct go_frame *f)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	uint64_t at = pc > f->entry ? pc - 1 : pc;
	struct row *row;

	if (!array_reserve(&rows->items, &rows->capacity, rows->count + 1))
		return &error_no_memory;
	printable_adds(&name, f->function);
	strbuf_addf(&name, "+0x%" PRIx64, at - f->entry);
	row = &rows->items[rows->count];
	*row = (struct row){.file = f->file, .line = f->line};
	snprintf(row->pc, sizeof(row->pc), "0x%" PRIx64, at);
	row->name = name.failed ? NULL : strdup(name.data);
	if (!row->name)
		return &error_no_memory;
	rows->count++;
	return NULL;
}

static struct error *must_check add_rows(const struct bucket_text *text, const uint64_t *pcs,
					 size_t depth, bool all, struct rows *rows)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < depth; i++) {
		struct go_frame f;

		if (!frame_at(text->functions, pcs[i], &f) || !strcmp(f.function, "runtime.goexit"))
			continue;
		if (all || rows->count || !is_runtime(f.function, text->minor))
			err = add_row(rows, pcs[i], &f);
	}
	return err;
}

/* ---- columns ---- */

/* In characters. */
static size_t width_of(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static size_t column_width(size_t widest)
{
	return (widest + 1 + TAB - 1) / TAB * TAB;
}

static void fill(size_t used, size_t width, FILE *out)
{
	for (size_t i = 0; i < (width - used + TAB - 1) / TAB; i++)
		fputc('\t', out);
}

static void write_rows(const struct rows *rows, FILE *out)
{
	size_t pc = 0, name = 0;

	for (size_t i = 0; i < rows->count; i++) {
		size_t pc_width = strlen(rows->items[i].pc), n = width_of(rows->items[i].name);

		pc = pc_width > pc ? pc_width : pc;
		name = n > name ? n : name;
	}
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *r = &rows->items[i];
		_cleanup_strbuf_ struct strbuf file = STRBUF_INIT;

		printable_adds(&file, r->file);
		fprintf(out, "#\t%s", r->pc);
		fill(strlen(r->pc), column_width(pc), out);
		fputs(r->name, out);
		fill(width_of(r->name), column_width(name), out);
		fprintf(out, "%s:%d\n", file.data, r->line);
	}
}

struct error *bucket_text_stack(const struct bucket_text *text, const uint64_t *pcs, size_t depth,
				bool all)
{
	for (size_t i = 0; i < depth; i++)
		fprintf(text->out, " 0x%" PRIx64, pcs[i]);
	fputc('\n', text->out);
	return bucket_text_frames(text, pcs, depth, all);
}

struct error *bucket_text_frames(const struct bucket_text *text, const uint64_t *pcs, size_t depth,
				 bool all)
{
	struct rows rows = {0};
	struct error *err = add_rows(text, pcs, depth, all, &rows);

	/* A stack of the runtime's functions alone has all of them. */
	if (!err && !rows.count && !all)
		err = add_rows(text, pcs, depth, true, &rows);
	if (!err) {
		write_rows(&rows, text->out);
		/* As runtime.CallersFrames() ends where it knows none. */
		fputs(rows.count ? "\n" : "#\t0x0\n\n", text->out);
	}
	rows_release(&rows);
	return err;
}

/* ---- memory ---- */

static int by_bytes_in_use(const void *a, const void *b, void *arg)
{
	const struct runtime_bucket *items = ((const struct runtime_buckets *)arg)->items;
	size_t i = *(const size_t *)a, k = *(const size_t *)b;
	int64_t x = (int64_t)(items[i].alloc_bytes - items[i].free_bytes);
	int64_t y = (int64_t)(items[k].alloc_bytes - items[k].free_bytes);

	if (x != y)
		return x < y ? 1 : -1;
	return (i > k) - (i < k);
}

static void write_heap_header(const struct bucket_text *text, const struct runtime_buckets *b,
			      int64_t rate)
{
	struct runtime_bucket all = {0};
	uint64_t in_use;

	for (size_t i = 0; i < b->count; i++) {
		all.allocs += b->items[i].allocs;
		all.frees += b->items[i].frees;
		all.alloc_bytes += b->items[i].alloc_bytes;
		all.free_bytes += b->items[i].free_bytes;
	}
	in_use = all.alloc_bytes - all.free_bytes;
	if (text->minor >= FIRST_WITH_UNEQUAL_BYTES && in_use == all.alloc_bytes)
		all.alloc_bytes++;
	fprintf(text->out,
		"heap profile: %" PRId64 ": %" PRId64 " [%" PRId64 ": %" PRId64 "] @ heap/%" PRId64
		"\n",
		(int64_t)(all.allocs - all.frees), (int64_t)in_use, (int64_t)all.allocs,
		(int64_t)all.alloc_bytes, (int64_t)(2 * (uint64_t)rate));
}

struct error *bucket_text_heap(const struct bucket_text *text, const struct runtime_buckets *b,
			       int64_t rate)
{
	_cleanup_free_ size_t *order = calloc(b->count + 1, sizeof(*order));
	struct error *err = order ? NULL : &error_no_memory;

	if (err)
		return err;
	for (size_t i = 0; i < b->count; i++)
		order[i] = i;
	qsort_r(order, b->count, sizeof(*order), by_bytes_in_use, (void *)b);
	write_heap_header(text, b, rate);
	for (size_t i = 0; !err && i < b->count; i++) {
		const struct runtime_bucket *r = &b->items[order[i]];

		fprintf(text->out, "%" PRId64 ": %" PRId64 " [%" PRId64 ": %" PRId64 "] @",
			(int64_t)(r->allocs - r->frees), (int64_t)(r->alloc_bytes - r->free_bytes),
			(int64_t)r->allocs, (int64_t)r->alloc_bytes);
		err = bucket_text_stack(text, b->pcs + r->first, r->depth, false);
	}
	return err;
}

/* ---- blocking ---- */

static int by_cycles(const void *a, const void *b, void *arg)
{
	const struct runtime_bucket *items = ((const struct runtime_buckets *)arg)->items;
	size_t i = *(const size_t *)a, k = *(const size_t *)b;

	if (items[i].cycles != items[k].cycles)
		return items[i].cycles < items[k].cycles ? 1 : -1;
	return (i > k) - (i < k);
}

struct error *bucket_text_expand(const struct pclntab *functions, const uint64_t *pcs, size_t depth,
				 uint64_t **ret, size_t *ret_capacity, size_t *ret_count)
{
	struct go_frame frames[MOST_INLINED];
	const struct go_frame *callee = NULL;
	struct go_frame inner;

	*ret_count = 0;
	for (size_t i = 0; i < depth; i++) {
		uint64_t word = pcs[i];
		size_t n = is_nonsense(word)
				   ? 0
				   : pclntab_frames(functions, word, frames, MOST_INLINED);

		if (!array_reserve(ret, ret_capacity, *ret_count + n + 1))
			return &error_no_memory;
		if (!n)
			(*ret)[(*ret_count)++] = word;
		for (size_t k = 0; k < n && word; k++) {
			uint64_t outer = pclntab_inlined_at(functions, word);

			if (!go_frame_hidden(&frames[k], callee))
				(*ret)[(*ret_count)++] =
					(word & ~STACK_PC_EXACT) + !!(word & STACK_PC_EXACT);
			inner = frames[k];
			callee = &inner;
			/* The stack may have it already. */
			if (i + 1 < depth && outer && pcs[i + 1] == outer + 1)
				break;
			word = outer ? outer | STACK_PC_EXACT : 0;
		}
	}
	return NULL;
}

struct error *bucket_text_blocking(const struct bucket_text *text, const struct runtime_buckets *b,
				   int64_t mutex_rate, int64_t ticks_per_second)
{
	_cleanup_free_ size_t *order = calloc(b->count + 1, sizeof(*order));
	_cleanup_free_ uint64_t *expanded = NULL;
	size_t capacity = 0;
	struct error *err = order ? NULL : &error_no_memory;

	if (err)
		return err;
	for (size_t i = 0; i < b->count; i++)
		order[i] = i;
	qsort_r(order, b->count, sizeof(*order), by_cycles, (void *)b);
	fprintf(text->out, "--- %s:\ncycles/second=%" PRId64 "\n",
		mutex_rate < 0 ? "contention" : "mutex", ticks_per_second);
	if (mutex_rate >= 0)
		fprintf(text->out, "sampling period=%" PRId64 "\n", mutex_rate);
	for (size_t i = 0; !err && i < b->count; i++) {
		const struct runtime_bucket *r = &b->items[order[i]];
		const uint64_t *pcs = b->pcs + r->first;
		int64_t count = r->count > -0x1p62 && r->count < 0x1p62 ? (int64_t)r->count : 0;
		size_t depth = r->depth;

		if (text->minor >= FIRST_WITH_EXPANDED_BLOCKS) {
			err = bucket_text_expand(text->functions, pcs, depth, &expanded, &capacity,
						 &depth);
			pcs = expanded;
		}
		fprintf(text->out, "%" PRId64 " %" PRId64 " @", r->cycles,
			mutex_rate < 0 && !count ? 1 : count);
		if (!err)
			err = bucket_text_stack(text, pcs, depth, true);
	}
	return err;
}
