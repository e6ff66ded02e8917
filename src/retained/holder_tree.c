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
	struct number_array types; /* by number: the type; NO_TYPE: it is a root */
	struct number_array own;   /* by number: the size of the object itself (packed_size) */
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

static struct error *must_check holder_of_object(struct making *m, uint32_t type, uint32_t above,
						 uint32_t *ret)
{
	uint32_t sum;
	struct error *err = sum_of(m, type, &sum);

	if (!err)
		err = sum_of(m, held_as(m, type), &sum);

	if (!err && m->tree->items[above].kind == HOLDER_ALL)
		err = child_of(m->tree, above, HOLDER_SEVERAL, 0, &above);
	return err ? err : child_of(m->tree, above, HOLDER_OBJECTS, m->tree->types[sum].name, ret);
}

/* Each comes after what dominates it. `of`: by number, its holder. */
static struct error *must_check make_holders(struct making *m, uint32_t *of)
{
	struct holder_tree *tree = m->tree;
	const struct dominators *d = m->in->dominators;

	for (uint32_t i = 1; i < d->count; i++) {
		uint32_t type = number_array_pass(&m->types, i);
		uint32_t node = number_array_pass(&d->nodes, i);
		uint32_t above = number_array_pass(&d->immediate, i), holder = 0;
		struct error *err =
			type == NO_TYPE ? holder_of_root(m, &m->in->graph->roots.items[node - 1],
							 of[above], &holder)
					: holder_of_object(m, type, of[above], &holder);

		if (err)
			return err;
		of[i] = holder;
		if (tree->items[holder].count++)
			continue;
		tree->items[holder].example = node;
		tree->items[holder].above = d->nodes.items[above];
	}
	return NULL;
}

/* ---- sizes ---- */

/* Those of large objects are whole pages. */
#define SIZE_UNIT 8u
#define SIZE_PAGE 8192u

static uint32_t packed_size(uint64_t size)
{
	uint64_t small = size / SIZE_UNIT, large = size / SIZE_PAGE;

	return small < FLOW_LAST ? (uint32_t)small
				 : FLOW_LAST | (large < FLOW_LAST ? (uint32_t)large : ~FLOW_LAST);
}

static uint64_t size_of(uint32_t packed)
{
	return packed & FLOW_LAST ? (uint64_t)(packed & ~FLOW_LAST) * SIZE_PAGE
				  : (uint64_t)packed * SIZE_UNIT;
}

static void take_size(void *arg, uint32_t rank, const struct object_span *span, uint32_t index)
{
	uint32_t *sizes = arg;

	sizes[rank] = packed_size(span->object_size);
}

/* What is known by rank of the objects, by number; `of_root` for roots. */
static struct error *must_check by_number(const struct making *m, const uint32_t *by_rank,
					  uint32_t of_root, struct number_array *ret)
{
	_cleanup_number_writer_ struct number_writer w = {0};
	const struct dominators *d = m->in->dominators;
	uint32_t first = object_graph_first_node(m->in->graph);

	for (uint32_t i = 0; i < d->count; i++) {
		uint32_t node = number_array_pass(&d->nodes, i);

		number_writer_add(&w, node < first ? of_root : by_rank[node - first]);
	}
	number_array_forget(&d->nodes);
	return number_writer_finish(&w, ret);
}

static struct error *must_check find_sizes(struct making *m)
{
	_cleanup_free_ uint32_t *sizes = flow_room(m->in->graph->count);

	if (!sizes)
		return &error_no_memory;
	object_graph_each(m->in->graph, take_size, sizes);
	return by_number(m, sizes, 0, &m->own);
}

/* From here on the types by rank need no memory. */
static struct error *must_check find_types(struct making *m)
{
	struct error *err = by_number(m, m->in->types->items, NO_TYPE, &m->types);

	number_array_forget(m->in->types);
	return err;
}

/* ---- sums ---- */

static void sum_holders(struct making *m)
{
	struct holder_tree *tree = m->tree;

	for (uint32_t i = 1; i < m->in->dominators->count; i++) {
		uint32_t type = number_array_pass(&m->types, i);
		uint64_t size = size_of(number_array_pass(&m->own, i));
		struct type_sum *sum;

		if (type == NO_TYPE)
			continue;
		sum = &tree->types[tree->type_names[type] - 1];
		sum->count++;
		sum->bytes += size;
		tree->items[number_array_pass(&tree->of, i)].bytes += size;
	}
	for (size_t i = 0; i < tree->count; i++)
		tree->items[i].retained = tree->items[i].bytes;
	for (size_t i = tree->count; i-- > 1;)
		tree->items[tree->items[i].parent].retained += tree->items[i].retained;
}

/* A type, one of whose objects holds the current one. */
struct open_type {
	uint32_t sum;
	uint32_t end;    /* the place after all that this object holds */
	uint64_t before; /* bytes that were counted when it was entered */
};

/* All that is known of the objects, by their places (dominators_places). */
struct placed {
	struct number_array types, own, sizes;
};

static void placed_release(struct placed *p)
{
	number_array_release(&p->types);
	number_array_release(&p->own);
	number_array_release(&p->sizes);
}

/* An object counts for its type if none above it has that, too: with it all that it holds. */
static void sum_placed(const struct making *m, const struct placed *p, struct open_type *open,
		       bool *is_open)
{
	struct holder_tree *tree = m->tree;
	uint32_t end = m->in->dominators->count;
	uint64_t total = 0;
	size_t depth = 0;

	for (uint32_t at = 0; at <= end; at++) {
		uint32_t type, sum;

		for (; depth && open[depth - 1].end == at; depth--) {
			const struct open_type *o = &open[depth - 1];

			tree->types[o->sum].retained += total - o->before;
			is_open[o->sum] = false;
		}
		type = at < end ? number_array_pass(&p->types, at) : NO_TYPE;
		if (type == NO_TYPE)
			continue;
		sum = tree->type_names[type] - 1;
		if (!is_open[sum])
			open[depth++] =
				(struct open_type){sum, at + number_array_pass(&p->sizes, at),
						   total};
		is_open[sum] = true;
		total += size_of(number_array_pass(&p->own, at));
	}
}

/* What is known by number, by place. */
static struct error *must_check by_place(const struct number_array *places, uint32_t count,
					 struct number_array *values, struct number_array *ret)
{
	uint32_t *items = flow_room(count);

	if (!items)
		return &error_no_memory;
	for (uint32_t i = 0; i < count; i++)
		items[number_array_pass(places, i)] = number_array_pass(values, i);
	number_array_release(values);
	*ret = number_array_of(items, count);
	return NULL;
}

static struct error *must_check sum_types(struct making *m)
{
	uint32_t count = m->in->dominators->count;
	size_t types = m->tree->type_count + 1;
	_cleanup_(placed_release) struct placed p = {0};
	_cleanup_number_array_ struct number_array places = {0}, sizes = {0};
	_cleanup_free_ struct open_type *open = calloc(types, sizeof(*open));
	_cleanup_free_ bool *is_open = calloc(types, sizeof(*is_open));
	struct error *err = dominators_places(m->in->dominators, &places, &sizes);

	if (!err && (!open || !is_open))
		err = &error_no_memory;
	if (!err)
		err = by_place(&places, count, &m->types, &p.types);
	if (!err)
		err = by_place(&places, count, &m->own, &p.own);
	if (!err)
		err = by_place(&places, count, &sizes, &p.sizes);
	if (!err)
		sum_placed(m, &p, open, is_open);
	return err;
}

/* With the least memory at a time: so in this order. */
static struct error *must_check make_tree(struct making *m)
{
	uint32_t count = m->in->dominators->count, *of;
	struct error *err = find_types(m);

	if (!err)
		err = find_sizes(m);
	if (err)
		return err;
	of = flow_numbers(count, 0);
	err = of ? make_holders(m, of) : &error_no_memory;
	m->tree->of = number_array_of(of, count);
	if (!err)
		sum_holders(m);
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
	number_array_release(&m.types);
	number_array_release(&m.own);
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
