/* Text: the tree, then what is not resident, the collector, and where goroutines were created. */
#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/printable.h"
#include "footprint/amounts.h"
#include "footprint/footprint.h"

#define MOST_CREATORS 5

static void write_row(const struct footprint *f, uint64_t bytes, unsigned int depth,
		      const char *name, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char text[16];

	strbuf_addf(&line, "%10s %6.1f  %*s", amount_text(bytes, text),
		    f->resident ? 100 * (double)bytes / (double)f->resident : 0, (int)depth * 2,
		    "");
	strbuf_adds(&line, name);
	printable_write_line(&line, out);
}

/* `rows` children of each node but the root; 0: all. */
static void write_children(const struct footprint *f, uint32_t node, unsigned int depth,
			   size_t rows, FILE *out)
{
	const struct memory_tree *tree = &f->tree;
	uint64_t others = 0;
	size_t count = 0, n = 0;
	char text[48];

	for (uint32_t i = tree->items[node].first; i != TREE_NONE; i = tree->items[i].next)
		count++;
	for (uint32_t i = tree->items[node].first; i != TREE_NONE; i = tree->items[i].next, n++) {
		if (rows && depth > 1 && n >= rows && count > rows + 1) {
			others += tree->items[i].bytes;
			continue;
		}
		write_row(f, tree->items[i].bytes, depth, memory_node_name(tree, i), out);
		write_children(f, i, depth + 1, rows, out);
	}
	if (!others)
		return;
	snprintf(text, sizeof(text), "(%zu others)", count - rows);
	write_row(f, others, depth, text, out);
}

static void write_group(const struct footprint *f, FILE *out)
{
	char charge[16], limit[16];

	if (!f->charge)
		return;
	amount_text(f->charge, charge);
	if (f->limit == UINT64_MAX)
		fprintf(out, "control group: charged %s, no limit\n", charge);
	else
		fprintf(out, "control group: charged %s of %s\n", charge,
			amount_text(f->limit, limit));
}

static void write_elsewhere(const struct footprint *f, FILE *out)
{
	char returned[16], swapped[16], huge[16], lazy[16];

	fprintf(out, "not resident: %s of the heap returned to the OS or never used, %s swapped\n",
		amount_text(f->returned, returned), amount_text(f->swapped, swapped));
	if (f->huge)
		fprintf(out, "huge pages: %s of the resident memory\n", amount_text(f->huge, huge));
	if (f->lazily_free)
		fprintf(out, "the kernel may take %s, which the program gave up (MADV_FREE)\n",
			amount_text(f->lazily_free, lazy));
}

static void write_age(const struct footprint *f, FILE *out)
{
	if (!f->gc.last_gc_ns)
		fputs("none yet", out);
	else if (f->taken > f->gc.last_gc_ns)
		fprintf(out, "the last %.3g s ago", (double)(f->taken - f->gc.last_gc_ns) / 1e9);
	else
		fputs("the last just now", out);
}

static void write_gc(const struct footprint *f, FILE *out)
{
	const struct gc_pacing *gc = &f->gc;
	char goal[16], live[16], marked[16], limit[16];

	if (!gc->known)
		return;
	fprintf(out, "garbage collector: heap %s, goal %s, %s alive in the last cycle; ",
		amount_text(gc->live, live),
		gc->goal > GC_MOST_GOAL ? "none" : amount_text(gc->goal, goal),
		amount_text(gc->marked, marked));
	if (gc->percent < 0)
		fputs("GOGC=off", out);
	else
		fprintf(out, "GOGC=%d", gc->percent);
	fprintf(out, ", GOMEMLIMIT=%s%s; %" PRIu32 " cycles, ",
		gc->limit == UINT64_MAX ? "off" : amount_text(gc->limit, limit),
		gc->is_limited ? ", which decides" : "", gc->cycles);
	write_age(f, out);
	fputc('\n', out);
}

static void write_creators(const struct footprint *f, FILE *out)
{
	char stacks[16], frames[16];

	if (!f->creator_count)
		return;
	fprintf(out, "\n%10s %10s %10s  GOROUTINES CREATED BY\n", "STACKS", "FRAMES", "COUNT");
	for (size_t i = 0; i < f->creator_count && i < MOST_CREATORS; i++) {
		const struct footprint_creator *c = &f->creators[i];

		printable_line(out, "%10s %10s %10" PRIu64 "  %s",
			       amount_text(c->stack_bytes, stacks),
			       amount_text(c->frame_bytes, frames), c->goroutines,
			       intern_get(&f->tree.names, c->name));
	}
}

struct error *footprint_write_text(const struct footprint *f, size_t rows, FILE *out)
{
	_cleanup_strbuf_ struct strbuf advice = STRBUF_INIT;

	fprintf(out, "%10s %6s  WHERE\n", f->is_core ? "MAPPED" : "RESIDENT", "%");
	write_row(f, f->resident, 0, memory_node_name(&f->tree, TREE_ROOT), out);
	write_children(f, TREE_ROOT, 1, rows, out);
	fputc('\n', out);
	write_group(f, out);
	write_elsewhere(f, out);
	write_gc(f, out);
	if (!footprint_add_advice(f, &advice))
		return &error_no_memory;
	fprintf(out, "%s\n", advice.data);
	write_creators(f, out);
	return NULL;
}
