/*
 * A graph for Graphviz: goroutines are boxes, objects are ellipses. Arrows lead from a waiter to
 * its object, and from an object to its holder. A dashed arrow leads to a candidate.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "waits/wait_words.h"

/* From this number on, waiters of one object at one line are one node. */
#define MERGE_FROM 5

static void add_quoted(struct strbuf *sb, const char *text)
{
	strbuf_addc(sb, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			strbuf_addc(sb, '\\');
		strbuf_addc(sb, *text);
	}
	strbuf_addc(sb, '"');
}

static void write_label(const char *node, const char *shape, const struct strbuf *text,
			const char *more, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	strbuf_addf(&line, "  %s [shape=%s%s, label=", node, shape, more);
	add_quoted(&line, text->data);
	strbuf_adds(&line, "];");
	fprintf(out, "%s\n", line.failed ? "  // out of memory" : line.data);
}

static void write_goroutine(const struct wait_graph *w, uint32_t i, bool *written, bool stuck,
			    FILE *out)
{
	const struct wait_goroutine *g = &w->goroutines[i];
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char node[32];

	if (written[i])
		return;
	written[i] = true;
	strbuf_addf(&text, "goroutine %" PRIu64 " [", g->id);
	printable_adds(&text, wait_state(w, g));
	strbuf_adds(&text, "] ");
	words_add_place(&text, &g->place);
	snprintf(node, sizeof(node), "g%" PRIu64, g->id);
	write_label(node, "box", &text, stuck ? ", color=red" : "", out);
}

static void write_object(const struct wait_graph *w, size_t i, FILE *out)
{
	const struct wait_object *o = &w->objects[i];
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char node[32];

	words_add_object(&text, o);
	strbuf_adds(&text, ": ");
	words_add_state(&text, w, o);
	snprintf(node, sizeof(node), "o%zu", i);
	write_label(node, "ellipse", &text, "", out);
}

static bool is_alone(const struct wait_graph *w, const struct wait_object *o, const bool *holds,
		     uint32_t goroutine)
{
	return o->waiter_count < MERGE_FROM || holds[goroutine] ||
	       w->goroutines[goroutine].edge_count > 1;
}

static void write_edges(const struct wait_graph *w, size_t i, const bool *holds, const bool *stuck,
			bool *written, FILE *out)
{
	const struct wait_object *o = &w->objects[i];
	size_t others = 0;

	for (size_t k = 0; k < o->waiter_count; k++) {
		uint32_t g = w->edges[o->waiters[k]].goroutine;

		if (!is_alone(w, o, holds, g)) {
			others++;
			continue;
		}
		write_goroutine(w, g, written, stuck[g], out);
		fprintf(out, "  g%" PRIu64 " -> o%zu;\n", w->goroutines[g].id, i);
	}
	if (others)
		fprintf(out, "  w%zu [shape=box, label=\"%zu goroutines\"];\n  w%zu -> o%zu;\n", i,
			others, i, i);
	for (size_t k = 0; k < o->holder_count; k++) {
		uint32_t g = o->holders[k].goroutine;

		write_goroutine(w, g, written, stuck[g], out);
		fprintf(out, "  o%zu -> g%" PRIu64 "%s;\n", i, w->goroutines[g].id,
			o->holders[k].proved ? "" : " [style=dashed]");
	}
}

void wait_graph_write_dot(const struct wait_graph *w, FILE *out)
{
	_cleanup_free_ bool *marks = calloc(w->count + 1, 3 * sizeof(*marks));
	bool *holds = marks, *stuck = marks + w->count, *written = marks + 2 * w->count;

	fputs("digraph waits {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n", out);
	if (!marks)
		fputs("  // out of memory\n", out);
	for (size_t i = 0; marks && i < w->cycle_count; i++)
		for (size_t k = 0; k < w->cycles[i].count; k++)
			stuck[w->cycles[i].steps[k].goroutine] |= w->cycles[i].proved;
	for (size_t i = 0; marks && i < w->holder_count; i++)
		holds[w->holders[i].goroutine] = true;
	for (size_t i = 0; marks && i < w->object_count; i++) {
		/* Timers and connections have no holders. */
		if (w->objects[i].kind > WAIT_SEMAPHORE)
			continue;
		write_object(w, i, out);
		write_edges(w, i, holds, stuck, written, out);
	}
	fputs("}\n", out);
}
