/*
 * Folded stacks, for flamegraph.pl and similar tools: one line for each stack, "root;...;leaf
 * WEIGHT", merged and sorted. The weight is wall time in microseconds, rounded, or bytes; a profile
 * without either (a dump) has the count instead. In a name, ';' becomes ':' and what is not
 * printable is escaped.
 *
 * Lines repeat common callers. With stacks of 30,000 frames, an input of 1 MB could make hundreds
 * of GB. So a line and the file have limits; one line counts the rest.
 *
 * With states, each stack ends in a frame of its own: "[running]", "[runnable]", "[syscall]", the
 * wait reason ("[chan receive]") or, without one, "[waiting]".
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/intern.h"
#include "base/printable.h"
#include "base/strbuf.h"
#include "profile/profile.h"
#include "profile/profile_symbols.h"
#include "profile/stack_tree.h"

#define MAX_LINE (1u << 20)
#define MAX_BYTES (512ull << 20)

/* Set in the tree's keys for states: the other bits are a number of folded.states. */
#define STATE_KEY (1u << 31)

struct folded {
	struct stack_tree tree; /* keys are functions, and states */
	const struct profile_symbols *symbols;
	const struct profile *profile;
	bool with_states;
	struct intern states; /* "[chan receive]" */
	uint32_t *order;      /* all nodes but the root; children of one parent in sequence, by
			       * name */
	uint64_t *whole;      /* for each node: its weight and that of all descendants */
	size_t *first;        /* for each node the index in `order` of its first child; one more */
};

static void folded_release(struct folded *f)
{
	stack_tree_release(&f->tree);
	intern_release(&f->states);
	free(f->order);
	free(f->whole);
	free(f->first);
}

static const char *name_of(const struct folded *f, uint32_t node)
{
	uint32_t key = f->tree.nodes[node].key;

	return key & STATE_KEY ? intern_get(&f->states, key & ~STATE_KEY)
			       : intern_get(&f->symbols->strings, key);
}

static bool add_state(struct folded *f, const struct profile_sample *sample, uint32_t *node)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	uint32_t key;

	strbuf_addc(&name, '[');
	strbuf_adds(&name, sample->state == PROFILE_WAITING && sample->wait
				   ? intern_get(&f->profile->strings, sample->wait)
				   : profile_state_name(sample->state));
	strbuf_addc(&name, ']');
	key = name.failed ? INTERN_FAILED : intern_bytes(&f->states, name.data, name.length);
	return key < STATE_KEY && stack_tree_child(&f->tree, *node, key | STATE_KEY, node);
}

static struct error *add_sample(struct folded *f, const struct profile_sample *sample,
				uint64_t weight, struct symbol_stack *stack)
{
	const struct profile_symbols *symbols = f->symbols;
	struct error *err = symbols_stack_of_program(symbols, sample, stack);
	uint32_t node = 0;

	if (err)
		return err;
	for (size_t i = stack->count; i-- > 0;) {
		uint32_t line = symbols->lines[stack->frames[i]];

		if (!stack_tree_child(&f->tree, node, symbols->source_lines[line].function, &node))
			return &error_no_memory;
	}
	if (f->with_states && !add_state(f, sample, &node))
		return &error_no_memory;
	f->tree.nodes[node].self += weight;
	return NULL;
}

/* In thousandths. */
static uint64_t weight_of(const struct profile *p, const struct profile_sample *sample, bool timed)
{
	if (p->unit == PROFILE_BYTES)
		return sample->wall_ns * 1000;
	return timed ? sample->wall_ns : sample->count * 1000;
}

static struct error *add_samples(struct folded *f, const struct profile *p)
{
	_cleanup_symbol_stack_ struct symbol_stack stack = {0};
	uint64_t count, wall;
	struct error *err = NULL;

	profile_totals(p, &count, &wall);
	for (size_t i = 0; i < p->count && !err; i++)
		err = add_sample(f, &p->samples[i], weight_of(p, &p->samples[i], wall), &stack);
	return err;
}

static int by_parent_and_name(const void *a, const void *b, void *folded)
{
	const struct folded *f = folded;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t above_x = f->tree.nodes[x].parent, above_y = f->tree.nodes[y].parent;
	int order;

	if (above_x != above_y)
		return above_x < above_y ? -1 : 1;
	order = strcmp(name_of(f, x), name_of(f, y));
	return order ? order : (x > y) - (x < y);
}

static struct error *sort_children(struct folded *f)
{
	size_t count = f->tree.count;

	f->order = calloc(count, sizeof(*f->order));
	f->first = calloc(count + 1, sizeof(*f->first));
	if (!f->order || !f->first)
		return &error_no_memory;
	for (size_t i = 1; i < count; i++) {
		f->order[i - 1] = i;
		f->first[f->tree.nodes[i].parent + 1]++;
	}
	for (size_t i = 0; i < count; i++)
		f->first[i + 1] += f->first[i];
	qsort_r(f->order, count - 1, sizeof(*f->order), by_parent_and_name, f);
	return NULL;
}

static void add_name(struct strbuf *sb, const char *name)
{
	size_t start = sb->length;

	printable_adds(sb, name);
	for (size_t i = start; i < sb->length; i++)
		if (sb->data[i] == ';')
			sb->data[i] = ':';
}

/* A node on the path from the root: its children that are still to come, and the end of its name in
 * the line. */
struct step {
	size_t next, end;
	size_t length;
};

struct walk {
	struct step *steps;
	size_t count;
	size_t capacity;
	struct strbuf line;
	uint64_t written; /* bytes */
	uint64_t left;    /* the weight that did not fit into the file */
};

static bool walk_enter(struct walk *w, const struct folded *f, uint32_t node)
{
	if (!array_reserve(&w->steps, &w->capacity, w->count + 1))
		return false;
	if (node) {
		if (w->line.length)
			strbuf_addc(&w->line, ';');
		add_name(&w->line, name_of(f, node));
	}
	w->steps[w->count++] = (struct step){f->first[node], f->first[node + 1], w->line.length};
	return !w->line.failed;
}

/* Truncates the line to its state at this step. */
static void walk_cut(struct walk *w, const struct step *step)
{
	w->line.length = step->length;
	w->line.data[step->length] = '\0';
}

static void print_line(struct walk *w, const char *stack, const char *behind, uint64_t weight,
		       FILE *out)
{
	if (weight < 500)
		return;
	if (w->written > MAX_BYTES)
		w->left += weight;
	else
		w->written += fprintf(out, "%s%s %lu\n", stack, behind,
				      (unsigned long)((weight + 500) / 1000));
}

/* Prints the weight that ends in the node. If its line is too long, the weight of its descendants
 * is included. */
static void print_node(struct walk *w, struct folded *f, uint32_t node, FILE *out)
{
	bool is_long = w->line.length > MAX_LINE;

	print_line(w, w->line.data, is_long ? ";[deeper frames omitted]" : "",
		   is_long ? f->whole[node] : f->tree.nodes[node].self, out);
	if (is_long)
		w->count--;
}

static bool walk_all(struct walk *w, struct folded *f, FILE *out)
{
	if (!walk_enter(w, f, 0))
		return false;
	while (w->count) {
		struct step *step = &w->steps[w->count - 1];
		uint32_t node;

		if (step->next == step->end) {
			w->count--;
			continue;
		}
		if (w->line.length > step->length)
			walk_cut(w, step);
		node = f->order[step->next++];
		if (!walk_enter(w, f, node))
			return false;
		print_node(w, f, node, out);
	}
	w->written = 0;
	print_line(w, "[stacks omitted: the file would be too large]", "", w->left, out);
	return true;
}

/* Sums the weights of each node and its descendants: a child has a larger number than its
 * parent. */
static struct error *must_check add_up(struct folded *f)
{
	f->whole = calloc(f->tree.count, sizeof(*f->whole));
	if (!f->whole)
		return &error_no_memory;
	for (size_t i = f->tree.count; i-- > 0;) {
		f->whole[i] += f->tree.nodes[i].self;
		if (i)
			f->whole[f->tree.nodes[i].parent] += f->whole[i];
	}
	return NULL;
}

static struct error *write_stacks(const struct profile *p, const struct profile_symbols *symbols,
				  bool with_states, FILE *out)
{
	_cleanup_(folded_release) struct folded f = {.symbols = symbols,
						     .profile = p,
						     .with_states = with_states};
	struct walk walk = {.line = STRBUF_INIT};
	struct error *err = add_samples(&f, p);
	bool done;

	if (err || !f.tree.count)
		return err;
	err = sort_children(&f);
	if (!err)
		err = add_up(&f);
	if (err)
		return err;
	done = walk_all(&walk, &f, out);
	free(walk.steps);
	strbuf_release(&walk.line);
	return done ? NULL : &error_no_memory;
}

static struct error *folded_write(const struct profile *p, const struct profile_symbols *symbols,
				  FILE *out)
{
	return write_stacks(p, symbols, false, out);
}

static struct error *folded_state_write(const struct profile *p,
					const struct profile_symbols *symbols, FILE *out)
{
	return write_stacks(p, symbols, true, out);
}

const struct profile_format profile_format_folded = {
	.name = "folded",
	.write = folded_write,
};

const struct profile_format profile_format_folded_state = {
	.name = "folded-state",
	.write = folded_state_write,
};
