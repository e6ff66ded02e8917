#include "retained/holder_tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

/* Objects of further holders count as part of what holds these. */
#define MOST_HOLDERS (1u << 20)
#define NO_TYPE UINT32_MAX

struct making {
	struct holder_tree *tree;
	const struct holder_input *in;
	uint32_t *types; /* by number: the type; NO_TYPE: it is a root */
	uint32_t *own;   /* by number: the bytes of the object itself / 8 */
	uint32_t *of;    /* by number: its holder */
	struct open_type *open;
};

/* By name of a type. */
struct open_type {
	uint32_t count;  /* of its objects that hold the current one */
	uint64_t before; /* bytes that were counted when the first of them was entered */
};

/* ---- types ---- */

/* The place of a type in the sums. Types of one name, of two packages or plugins, have one. */
static struct error *must_check sum_of(struct making *m, uint32_t type, uint32_t *ret)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	struct holder_tree *tree = m->tree;
	const struct object_graph *g = m->in->graph;
	struct error *err;
	uint64_t *place;
	uint32_t id;

	*ret = tree->type_names[type] - 1;
	if (tree->type_names[type])
		return NULL;
	err = type_table_name(g->table, m->in->runtime_types, &g->img->functions, type, &name);
	if (err)
		return err;
	id = intern_string(&tree->names, name.data);
	place = id == INTERN_FAILED ? NULL : map_at(&tree->sums, id);
	if (!place || !array_reserve(&tree->types, &tree->type_capacity, tree->type_count + 1))
		return &error_no_memory;
	if (!*place) {
		tree->types[tree->type_count++] = (struct type_sum){.name = id};
		*place = tree->type_count;
	}
	*ret = (uint32_t)*place - 1;
	tree->type_names[type] = (uint32_t)*place;
	return NULL;
}

/* ---- holders ---- */

static struct error *must_check add_holder(struct holder_tree *tree, uint32_t parent,
					   enum holder_kind kind, uint32_t name, uint32_t *ret)
{
	if (!array_reserve(&tree->items, &tree->capacity, tree->count + 1))
		return &error_no_memory;
	*ret = (uint32_t)tree->count;
	tree->items[tree->count++] = (struct holder){.kind = kind,
						     .name = name,
						     .parent = parent,
						     .first = HOLDER_NONE,
						     .next = HOLDER_NONE};
	return NULL;
}

/* The holder above that has this name already. */
static uint32_t same_above(const struct holder_tree *tree, uint32_t holder, uint32_t name)
{
	for (; holder != HOLDER_NONE && tree->items[holder].kind == HOLDER_OBJECTS;
	     holder = tree->items[holder].parent)
		if (tree->items[holder].name == name)
			return holder;
	return HOLDER_NONE;
}

static struct error *must_check child_of(struct holder_tree *tree, uint32_t parent,
					 enum holder_kind kind, uint32_t name, uint32_t *ret)
{
	uint64_t key = (uint64_t)parent << 32 | name;
	uint64_t *place = map_at(&tree->index, key ^ (uint64_t)kind << 60);
	struct error *err;

	if (!place)
		return &error_no_memory;
	if (*place) {
		*ret = (uint32_t)*place - 1;
		return NULL;
	}
	*ret = kind == HOLDER_OBJECTS ? same_above(tree, parent, name) : HOLDER_NONE;
	if (*ret == HOLDER_NONE && tree->count >= MOST_HOLDERS)
		*ret = parent;
	if (*ret == HOLDER_NONE) {
		err = add_holder(tree, parent, kind, name, ret);
		if (err)
			return err;
	}
	*place = (uint64_t)*ret + 1;
	return NULL;
}

/* ---- roots ---- */

static const char *start_of(const struct object_graph *g, uint32_t goroutine)
{
	const struct pclntab *functions = &g->img->functions;
	struct go_func f;

	if (!pclntab_find(functions,
			  pclntab_wrapped(functions, g->waits->goroutines[goroutine].start_pc), &f))
		return "?";
	return f.name;
}

static enum holder_kind kind_of(const struct root *root)
{
	switch (root->kind) {
	case ROOT_GLOBAL:
		return HOLDER_GLOBAL;
	case ROOT_GOROUTINE:
		return HOLDER_GOROUTINE;
	case ROOT_VARIABLE:
		return root->name ? HOLDER_VARIABLE : HOLDER_FRAME;
	case ROOT_FINALIZER:
		return HOLDER_FINALIZER;
	default:
		return HOLDER_REGISTERS;
	}
}

static void add_root_name(const struct object_graph *g, const struct root *root, struct strbuf *sb)
{
	const char *name = root->name && *root->name == '&' ? root->name + 1 : root->name;

	switch (kind_of(root)) {
	case HOLDER_GLOBAL:
		if (name)
			strbuf_adds(sb, name);
		else
			strbuf_addf(sb, "0x%" PRIx64, root->address);
		break;
	case HOLDER_GOROUTINE:
		strbuf_adds(sb, start_of(g, root->goroutine));
		break;
	case HOLDER_VARIABLE:
		strbuf_addf(sb, "%s in %s", name, root->function ? root->function : "?");
		break;
	case HOLDER_FRAME:
		strbuf_adds(sb, root->function ? root->function : "?");
		break;
	default:
		break;
	}
}

static struct error *must_check holder_of_root(struct making *m, const struct root *root,
					       uint32_t above, uint32_t *ret)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	uint32_t id;

	add_root_name(m->in->graph, root, &name);
	id = name.failed ? INTERN_FAILED : intern_string(&m->tree->names, name.data);
	if (id == INTERN_FAILED)
		return &error_no_memory;
	return child_of(m->tree, above, kind_of(root), id, ret);
}

/* ---- objects ---- */

static uint32_t type_at(const struct making *m, uint32_t number)
{
	return m->types[number];
}

static bool is_root(const struct making *m, uint32_t number)
{
	return m->types[number] == NO_TYPE;
}

/* The parts of a map are held as one with it. */
static uint32_t held_as(const struct making *m, uint32_t type)
{
	struct type_table *table = m->in->graph->table;
	enum object_form form = table->items[type].form;
	uint32_t map;

	if (form != FORM_MAP_GROUPS && form != FORM_MAP_TABLE && form != FORM_MAP_DIRECTORY)
		return type;
	map = type_table_find(table, FORM_MAP, table->items[type].type);
	return map ? map : type;
}

static struct error *must_check holder_of_object(struct making *m, uint32_t number, uint32_t above,
						 uint32_t *ret)
{
	uint32_t sum;
	struct error *err = sum_of(m, type_at(m, number), &sum);
	if (!err)
		err = sum_of(m, held_as(m, type_at(m, number)), &sum);

	if (!err && m->tree->items[above].kind == HOLDER_ALL)
		err = child_of(m->tree, above, HOLDER_SEVERAL, 0, &above);
	return err ? err : child_of(m->tree, above, HOLDER_OBJECTS, m->tree->types[sum].name, ret);
}

static const struct root *root_of(const struct making *m, uint32_t number)
{
	return &m->in->graph->roots.items[m->in->dominators->nodes.items[number] - 1];
}

/* Each comes after what dominates it. */
static struct error *must_check make_holders(struct making *m)
{
	struct holder_tree *tree = m->tree;
	const struct dominators *d = m->in->dominators;
	struct error *err = NULL;

	m->of[0] = 0;
	for (uint32_t i = 1; i < d->count && !err; i++) {
		uint32_t above = m->of[d->immediate[i]], holder = 0;

		err = is_root(m, i) ? holder_of_root(m, root_of(m, i), above, &holder)
				    : holder_of_object(m, i, above, &holder);
		if (err)
			return err;
		m->of[i] = holder;
		if (tree->items[holder].count++)
			continue;
		tree->items[holder].example = d->nodes.items[i];
		tree->items[holder].above = d->nodes.items[d->immediate[i]];
	}
	return err;
}

/* ---- sums ---- */

struct sizing {
	const struct object_graph *graph;
	const uint32_t *numbers;
	uint32_t *own;
};

#define OWN_UNIT 8u
#define OWN_MOST UINT32_MAX

static void take_size(void *arg, uint32_t rank, const struct object_span *span, uint32_t index)
{
	struct sizing *s = arg;
	uint32_t number = s->numbers[object_graph_first_node(s->graph) + rank];
	uint64_t size = span->object_size / OWN_UNIT;

	if (number != FLOW_NONE)
		s->own[number] = size < OWN_MOST ? (uint32_t)size : OWN_MOST;
}

static struct error *must_check find_sizes(struct making *m)
{
	const struct dominators *d = m->in->dominators;
	struct sizing s = {.graph = m->in->graph, .own = flow_numbers(d->count, 0)};
	_cleanup_free_ uint32_t *numbers = NULL;
	struct error *err = dominators_numbers(d, m->in->graph->flow.count, &numbers);

	m->own = s.own;
	if (err || !s.own)
		return err ? err : &error_no_memory;
	s.numbers = numbers;
	object_graph_each(m->in->graph, take_size, &s);
	return NULL;
}

static uint64_t own_bytes(const struct making *m, uint32_t number)
{
	struct object_graph *g = m->in->graph;
	uint32_t node = m->in->dominators->nodes.items[number];

	if (m->own[number] < OWN_MOST)
		return (uint64_t)m->own[number] * OWN_UNIT;
	return object_graph_ranked(g, node - object_graph_first_node(g)).span->object_size;
}

static void sum_holders(struct making *m)
{
	struct holder_tree *tree = m->tree;
	const struct dominators *d = m->in->dominators;

	for (uint32_t i = 1; i < d->count; i++) {
		struct type_sum *sum;

		if (is_root(m, i))
			continue;
		sum = &tree->types[tree->type_names[type_at(m, i)] - 1];
		sum->count++;
		sum->bytes += own_bytes(m, i);
		tree->items[m->of[i]].bytes += own_bytes(m, i);
	}
	for (size_t i = 0; i < tree->count; i++)
		tree->items[i].retained = tree->items[i].bytes;
	for (size_t i = tree->count; i-- > 1;)
		tree->items[tree->items[i].parent].retained += tree->items[i].retained;
}

/* An object counts for its type if none above it has that, too: with it all that it holds. `total`
 * are the bytes of all objects that were entered. */
static void enter(struct making *m, uint32_t number, uint64_t *total)
{
	struct open_type *open;

	if (!number || is_root(m, number))
		return;
	open = &m->open[m->tree->type_names[type_at(m, number)] - 1];
	if (!open->count++)
		open->before = *total;
	*total += own_bytes(m, number);
}

static void leave(struct making *m, uint32_t number, uint64_t total)
{
	struct open_type *open;
	uint32_t sum;

	if (!number || is_root(m, number))
		return;
	sum = m->tree->type_names[type_at(m, number)] - 1;
	open = &m->open[sum];
	if (!--open->count)
		m->tree->types[sum].retained += total - open->before;
}

static struct error *must_check sum_types(struct making *m)
{
	const struct dominators *d = m->in->dominators;
	_cleanup_free_ uint32_t *first = NULL, *next = NULL;
	_cleanup_free_ struct open_type *open = calloc(m->tree->type_count + 1, sizeof(*open));
	struct error *err = dominators_children(d, &first, &next);
	uint64_t total = 0;
	uint32_t at = 0;

	if (err || !open)
		return err ? err : &error_no_memory;
	m->open = open;
	for (;;) {
		if (first[at]) {
			at = first[at];
			enter(m, at, &total);
			continue;
		}
		while (at && !next[at]) {
			leave(m, at, total);
			at = d->immediate[at];
		}
		if (!at)
			return NULL;
		leave(m, at, total);
		at = next[at];
		enter(m, at, &total);
	}
}

/* From here on the types and nodes in files need no memory. */
static struct error *must_check find_types(struct making *m)
{
	const struct dominators *d = m->in->dominators;
	uint32_t first = object_graph_first_node(m->in->graph);

	m->types = flow_room(d->count);
	if (!m->types)
		return &error_no_memory;
	for (uint32_t i = 0; i < d->count; i++) {
		uint32_t node = number_array_pass(&d->nodes, i);

		m->types[i] = node < first ? NO_TYPE : m->in->types->items[node - first];
	}
	number_array_forget(&d->nodes);
	number_array_forget(m->in->types);
	return NULL;
}

/* With the least memory at a time: so in this order. */
static struct error *must_check make_tree(struct making *m)
{
	struct holder_tree *tree = m->tree;
	struct error *err = find_types(m);

	if (!err)
		err = find_sizes(m);
	if (err)
		return err;
	m->of = flow_numbers(m->in->dominators->count, 0);
	err = m->of ? make_holders(m) : &error_no_memory;
	if (!err)
		sum_holders(m);
	tree->of = number_array_of(m->of, m->in->dominators->count);
	return err ? err : sum_types(m);
}

/* ---- order ---- */

static int compare_types(const void *a, const void *b, void *arg)
{
	const struct type_sum *x = a, *y = b;
	const struct holder_tree *tree = arg;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return strcmp(intern_get(&tree->names, x->name), intern_get(&tree->names, y->name));
}

static int compare_holders(const void *a, const void *b, void *arg)
{
	const struct holder_tree *tree = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (tree->items[x].retained != tree->items[y].retained)
		return tree->items[x].retained < tree->items[y].retained ? -1 : 1;
	return -strcmp(holder_name(tree, x), holder_name(tree, y));
}

static struct error *must_check put_in_order(struct holder_tree *tree)
{
	_cleanup_free_ uint32_t *order = calloc(tree->count + 1, sizeof(*order));

	if (!order)
		return &error_no_memory;
	for (size_t i = 0; i < tree->count; i++)
		order[i] = (uint32_t)i;
	if (tree->count > 2)
		qsort_r(order + 1, tree->count - 1, sizeof(*order), compare_holders, tree);
	for (size_t i = 1; i < tree->count; i++) {
		struct holder *h = &tree->items[order[i]];

		h->next = tree->items[h->parent].first;
		tree->items[h->parent].first = order[i];
	}
	return NULL;
}

struct error *holder_tree_make(const struct holder_input *in, struct holder_tree *ret)
{
	struct making m = {.tree = ret, .in = in};
	struct error *err;
	uint32_t first;

	*ret = (struct holder_tree){0};
	ret->type_names = calloc(in->graph->table->count + 1, sizeof(*ret->type_names));
	if (!ret->type_names)
		return &error_no_memory;
	if (intern_string(&ret->names, "") == INTERN_FAILED)
		return &error_no_memory;
	err = add_holder(ret, HOLDER_NONE, HOLDER_ALL, 0, &first);
	if (!err)
		err = make_tree(&m);
	free(m.types);
	free(m.own);
	if (!err)
		err = put_in_order(ret);
	for (size_t i = 0; i < in->graph->table->count && !err; i++)
		if (ret->type_names[i])
			ret->type_names[i] = ret->types[ret->type_names[i] - 1].name;
	if (!err && ret->type_count)
		qsort_r(ret->types, ret->type_count, sizeof(*ret->types), compare_types, ret);
	return err;
}

void holder_tree_release(struct holder_tree *tree)
{
	intern_release(&tree->names);
	free(tree->items);
	map_release(&tree->index);
	map_release(&tree->sums);
	number_array_release(&tree->of);
	free(tree->types);
	free(tree->type_names);
	*tree = (struct holder_tree){0};
}
