/* Text: deadlocks first, then the objects, each with its holders and waiters. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/printable.h"
#include "waits/wait_words.h"

/* The number of goroutines of one line that are listed by id. */
#define MAX_IDS 10

static void write_line(struct strbuf *line, FILE *out)
{
	printable_write_line(line, out);
}

static void write_step(const struct wait_graph *w, const struct wait_cycle *c, size_t i, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	const struct wait_goroutine *g = &w->goroutines[c->steps[i].goroutine];
	const struct wait_goroutine *next = &w->goroutines[c->steps[(i + 1) % c->count].goroutine];

	strbuf_addf(&line, "  goroutine %" PRIu64 " in ", g->id);
	words_add_place(&line, &g->place);
	strbuf_adds(&line, " waits for ");
	words_add_object(&line, &w->objects[c->steps[i].object]);
	strbuf_addf(&line, "; goroutine %" PRIu64 " %s it", next->id,
		    c->proved ? "has" : "may have");
	write_line(&line, out);
}

static void write_cycle(const struct wait_graph *w, const struct wait_cycle *c, FILE *out)
{
	if (c->count == 1)
		fprintf(out, "%s: a goroutine waits for an object that it holds itself\n",
			c->proved ? "deadlock" : "suspected deadlock");
	else
		fprintf(out, "%s: %zu goroutines wait for each other\n",
			c->proved ? "deadlock" : "suspected deadlock", c->count);
	for (size_t i = 0; i < c->count; i++)
		write_step(w, c, i, out);
	fputc('\n', out);
}

/* ---- the waiters of an object, or of several ---- */

struct waiter {
	const struct wait_edge *edge;
	const struct wait_goroutine *g;
	const char *state;
};

static int compare_waiters(const void *a, const void *b)
{
	const struct waiter *x = a, *y = b;
	int order = strcmp(x->g->place.function, y->g->place.function);

	if (!order)
		order = strcmp(x->g->place.file, y->g->place.file);
	if (!order)
		order = (x->g->place.line > y->g->place.line) -
			(x->g->place.line < y->g->place.line);
	if (!order)
		order = strcmp(x->state, y->state);
	if (!order)
		order = (int)x->edge->side - (int)y->edge->side;
	return order ? order : (x->g->id > y->g->id) - (x->g->id < y->g->id);
}

static bool same_row(const struct waiter *x, const struct waiter *y)
{
	return x->g->place.line == y->g->place.line && x->edge->side == y->edge->side &&
	       !strcmp(x->g->place.function, y->g->place.function) &&
	       !strcmp(x->g->place.file, y->g->place.file) && !strcmp(x->state, y->state);
}

static void add_what(struct strbuf *line, const struct wait_graph *w, const struct waiter *first,
		     uint64_t age)
{
	static const char *const sides[] = {[WAIT_ANY] = "",
					    [WAIT_RECEIVE] = " to receive",
					    [WAIT_SEND] = " to send",
					    [WAIT_READ] = " to read",
					    [WAIT_WRITE] = " to write"};
	const char *side = first->edge->is_case ? sides[first->edge->side] : "";

	strbuf_adds(line, " [");
	printable_adds(line, first->state);
	strbuf_adds(line, side);
	if (age) {
		strbuf_adds(line, ", ");
		words_add_age(line, age);
	}
	strbuf_adds(line, "] in ");
	words_add_place(line, &first->g->place);
}

static void write_row(const struct wait_graph *w, const struct waiter *first, size_t count,
		      FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	uint64_t age = 0;

	for (size_t i = 0; i < count; i++)
		if (wait_age(w, first[i].g) > age)
			age = wait_age(w, first[i].g);
	if (count == 1)
		strbuf_addf(&line, "  goroutine %" PRIu64, first->g->id);
	else
		strbuf_addf(&line, "  %zu goroutines", count);
	add_what(&line, w, first, age);
	for (size_t i = 0; count > 1 && i < count && i < MAX_IDS; i++)
		strbuf_addf(&line, "%s%" PRIu64, i ? ", " : ": ", first[i].g->id);
	strbuf_adds(&line, count > MAX_IDS ? ", ..." : "");
	write_line(&line, out);
}

/* The waiters of `count` objects from the first on. */
static void write_waiters(const struct wait_graph *w, const struct wait_object *first, size_t count,
			  FILE *out)
{
	_cleanup_free_ struct waiter *waiters = NULL;
	size_t n = 0, all = 0, from = 0;

	for (size_t i = 0; i < count; i++)
		all += first[i].waiter_count;
	waiters = calloc(all + 1, sizeof(*waiters));
	if (!waiters) {
		fputs("  (out of memory)\n", out);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < first[i].waiter_count; k++) {
			const struct wait_edge *e = &w->edges[first[i].waiters[k]];
			const struct wait_goroutine *g = &w->goroutines[e->goroutine];

			waiters[n++] = (struct waiter){e, g, wait_state(w, g)};
		}
	}
	qsort(waiters, n, sizeof(*waiters), compare_waiters);
	for (size_t i = 1; i <= n; i++) {
		if (i < n && same_row(&waiters[from], &waiters[i]))
			continue;
		write_row(w, &waiters[from], i - from, out);
		from = i;
	}
}

/* ---- objects ---- */

static void write_holder(const struct wait_graph *w, const struct wait_object *o,
			 const struct wait_holder *h, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	const struct wait_goroutine *g = &w->goroutines[h->goroutine];

	strbuf_addf(&line, "  %s goroutine %" PRIu64 " [",
		    !h->proved                  ? "candidate:"
		    : o->kind == WAIT_WAITGROUP ? "will be done by"
						: "held by",
		    g->id);
	printable_adds(&line, wait_state(w, g));
	strbuf_adds(&line, "] in ");
	words_add_place(&line, &h->place);
	strbuf_adds(&line, ": ");
	printable_adds(&line, h->why);
	write_line(&line, out);
}

static void write_object(const struct wait_graph *w, const struct wait_object *o, FILE *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	size_t before;

	words_add_object(&line, o);
	strbuf_adds(&line, ": ");
	before = line.length;
	words_add_state(&line, w, o);
	strbuf_adds(&line, line.length > before ? "; " : "");
	strbuf_addf(&line, "%zu goroutine%s", o->waiter_count, o->waiter_count == 1 ? "" : "s");
	write_line(&line, out);
	for (size_t i = 0; i < o->holder_count; i++)
		write_holder(w, o, &o->holders[i], out);
	if ((o->kind == WAIT_MUTEX || o->kind == WAIT_RWMUTEX) && o->locked && !o->holder_count)
		fprintf(out, "  holder not found%s\n",
			w->running ? ": it may be one of the running goroutines" : "");
	write_waiters(w, o, 1, out);
	fputc('\n', out);
}

/* Objects without holders are printed together, one line for each kind. */
static bool is_short(const struct wait_object *o)
{
	return o->kind == WAIT_TIMER || o->kind == WAIT_OTHER || o->kind == WAIT_PROCESS ||
	       (o->kind == WAIT_NETWORK && o->fd < 0);
}

static size_t write_short(const struct wait_graph *w, size_t i, FILE *out)
{
	const struct wait_object *first = &w->objects[i];
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	size_t n = 0, waiters = 0;

	while (i + n < w->object_count && is_short(&first[n]) && first[n].kind == first->kind &&
	       (first->kind != WAIT_OTHER || !strcmp(first[n].name, first->name)))
		waiters += first[n++].waiter_count;
	if (first->kind == WAIT_OTHER)
		printable_adds(&line, first->name);
	else
		strbuf_adds(&line, wait_kind_name(first->kind));
	strbuf_addf(&line, ": %zu goroutine%s", waiters, waiters == 1 ? "" : "s");
	if (n == 1 && first->known) {
		strbuf_adds(&line, ", ");
		words_add_state(&line, w, first);
	}
	write_line(&line, out);
	write_waiters(w, first, n, out);
	fputc('\n', out);
	return n;
}

void wait_graph_write_text(const struct wait_graph *w, FILE *out)
{
	size_t waiting = 0;

	for (size_t i = 0; i < w->count; i++)
		waiting += w->goroutines[i].edge_count != 0;
	for (size_t i = 0; i < w->cycle_count; i++)
		write_cycle(w, &w->cycles[i], out);
	for (size_t i = 0; i < w->object_count;) {
		if (is_short(&w->objects[i])) {
			i += write_short(w, i, out);
		} else {
			write_object(w, &w->objects[i], out);
			i++;
		}
	}
	fprintf(out, "%zu of %zu goroutines wait", waiting, w->alive);
	if (w->moved)
		fprintf(out, "; %zu ran while they were read", w->moved);
	if (w->unknown)
		fprintf(out, "; for %zu the object is unknown", w->unknown);
	fputs(w->truncated ? "; the output is incomplete\n" : "\n", out);
}
