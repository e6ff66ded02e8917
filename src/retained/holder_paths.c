/* The table of holders, and the ways on which they hold what they do. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "retained/retained.h"

/* A row goes on while one holds at least so much of what the one above it holds. */
#define NEARLY_ALL 0.9
#define MOST_ROWS 10000u
/* The longest way that is shown; what is left out is in its middle. */
#define MOST_STEPS 12u
/* Bytes of an object in which the pointer to another one is looked for. */
#define MOST_SEARCHED (64u << 10)
#define MAX_DEPTH 16

static const char ARROW[] = " \xe2\x86\x92 ";

/* ---- rows ---- */

static uint32_t heaviest(const struct holder_tree *tree, uint32_t holder)
{
	uint32_t child = tree->items[holder].first;

	if (child == HOLDER_NONE ||
	    (double)tree->items[child].retained < NEARLY_ALL * (double)tree->items[holder].retained)
		return HOLDER_NONE;
	return child;
}

/* A row begins below one that divides what it holds. */
static bool begins_row(const struct holder_tree *tree, uint32_t holder)
{
	uint32_t parent = tree->items[holder].parent;

	if (tree->items[holder].kind == HOLDER_SEVERAL || !holder)
		return false;
	return tree->items[parent].kind == HOLDER_SEVERAL || !parent ||
	       heaviest(tree, parent) != holder;
}

static int compare_rows(const void *a, const void *b, void *arg)
{
	const struct holder_tree *tree = arg;
	const struct holder_row *x = a, *y = b;
	uint64_t one = tree->items[x->holder].retained, other = tree->items[y->holder].retained;

	if (one != other)
		return one < other ? 1 : -1;
	return (x->holder > y->holder) - (x->holder < y->holder);
}

struct error *retained_rows(const struct retained *r, uint64_t least, struct holder_row **ret,
			    size_t *ret_count)
{
	const struct holder_tree *tree = &r->holders;
	_cleanup_free_ struct holder_row *rows = NULL;
	size_t count = 0, capacity = 0;

	for (uint32_t i = 1; i < tree->count; i++) {
		uint32_t last = i, next;

		if (!begins_row(tree, i) || tree->items[i].retained < least ||
		    !tree->items[i].retained)
			continue;
		while ((next = heaviest(tree, last)) != HOLDER_NONE)
			last = next;
		if (!array_reserve(&rows, &capacity, count + 1))
			return &error_no_memory;
		rows[count++] = (struct holder_row){i, last};
	}
	if (count)
		qsort_r(rows, count, sizeof(*rows), compare_rows, (void *)tree);
	*ret_count = count < MOST_ROWS ? count : MOST_ROWS;
	*ret = take_ptr(rows);
	return NULL;
}

/* ---- fields ---- */

static struct heap_object object_of(struct retained *r, uint32_t node)
{
	return object_graph_ranked(&r->graph, node - object_graph_first_node(&r->graph));
}

/* Where in an object the pointer to another one is. */
static struct error *must_check find_pointer(struct retained *r, struct heap_object from,
					     struct heap_object to, uint64_t *ret, bool *ret_found)
{
	uint64_t size =
		from.span->object_size < MOST_SEARCHED ? from.span->object_size : MOST_SEARCHED;
	uint64_t header = object_graph_header(&r->graph, from.span);
	_cleanup_free_ uint64_t *words = malloc(size + 8);
	struct error *err;

	*ret_found = false;
	if (!words)
		return &error_no_memory;
	err = target_read(r->graph.t, heap_object_address(from), words, size);
	if (err && err->code != ERROR_FAULT)
		return err;
	if (error_dropped(err))
		return NULL;
	for (uint64_t i = header / 8; i < size / 8 && !*ret_found; i++) {
		*ret = i * 8 - header;
		*ret_found = words[i] - heap_object_address(to) < to.span->object_size;
	}
	return NULL;
}

static const struct runtime_field *field_of(const struct runtime_type *type, uint64_t offset)
{
	const struct runtime_field *found = NULL;

	for (size_t i = 0; i < type->field_count && type->fields[i].offset <= offset; i++)
		found = &type->fields[i];
	return found;
}

struct error *retained_add_fields(struct retained *r, uint64_t address, uint64_t offset,
				  struct strbuf *ret)
{
	for (int depth = 0; depth < MAX_DEPTH; depth++) {
		const struct runtime_type *type;
		const struct runtime_field *field;
		struct error *err = runtime_types_get(&r->types, address, &type);

		if (err || !type)
			return err;
		if (type->kind == KIND_ARRAY) {
			err = runtime_types_get(&r->types, type->element, &type);
			if (err || !type || !type->size)
				return err;
			strbuf_adds(ret, "[]");
			address = type->address;
			offset %= type->size;
			continue;
		}
		field = type->kind == KIND_STRUCT ? field_of(type, offset) : NULL;
		if (!field)
			return NULL;
		strbuf_addf(ret, ".%s", field->name);
		address = field->type;
		offset -= field->offset;
	}
	return NULL;
}

/* The field of one object, or member of a global variable, that leads to another. */
static struct error *must_check add_field(struct retained *r, uint32_t from, uint32_t to,
					  struct strbuf *ret)
{
	uint32_t first = object_graph_first_node(&r->graph);
	const struct object_type *type;
	const struct runtime_type *element = NULL;
	uint64_t offset;
	struct error *err;
	bool found;

	if (to < first)
		return NULL;
	if (from < first) {
		if (from)
			root_list_add_members(&r->graph.roots, from - 1,
					      (uint32_t)heap_object_number(object_of(r, to)), ret);
		return NULL;
	}
	type = &r->table.items[r->object_types.items[from - first]];
	if (type->form != FORM_VALUE && type->form != FORM_ARRAY)
		return NULL;
	err = find_pointer(r, object_of(r, from), object_of(r, to), &offset, &found);
	if (err || !found)
		return err;
	err = runtime_types_get(&r->types, type->type, &element);
	if (err || !element || !element->size)
		return err;
	return retained_add_fields(r, type->type, offset % element->size, ret);
}

/* ---- one holder ---- */

static uint64_t goroutine_id(const struct retained *r, uint32_t node)
{
	const struct root_list *l = &r->graph.roots;

	return r->graph.waits->goroutines[l->items[node - 1].goroutine].id;
}

void retained_add_holder(const struct retained *r, uint32_t holder, struct strbuf *ret)
{
	static const char *const before[] = {
		[HOLDER_GLOBAL] = "global ",
		[HOLDER_GOROUTINE] = "goroutines (",
		[HOLDER_VARIABLE] = "variable ",
		[HOLDER_FRAME] = "frame of ",
		[HOLDER_REGISTERS] = "registers",
		[HOLDER_SEVERAL] = "held by several",
		[HOLDER_FINALIZER] = "finalizers, cleanups and weak pointers",
		[HOLDER_OBJECTS] = "",
		[HOLDER_ALL] = "",
	};
	const struct holder *h = &r->holders.items[holder];

	strbuf_adds(ret, before[h->kind]);
	strbuf_adds(ret, holder_name(&r->holders, holder));
	if (h->kind == HOLDER_GOROUTINE)
		strbuf_addc(ret, ')');
}

/* With the number of goroutines, or the one that it is. */
static void add_holder(const struct retained *r, uint32_t holder, struct strbuf *ret)
{
	const struct holder *h = &r->holders.items[holder];

	if (h->kind == HOLDER_GOROUTINE && h->count == 1)
		strbuf_addf(ret, "goroutine %" PRIu64 " (%s)", goroutine_id(r, h->example),
			    holder_name(&r->holders, holder));
	else if (h->kind == HOLDER_GOROUTINE)
		strbuf_addf(ret, "%" PRIu64 " ", h->count);
	if (h->kind != HOLDER_GOROUTINE || h->count != 1)
		retained_add_holder(r, holder, ret);
}

/* ---- ways ---- */

static void add_root(const struct retained *r, uint32_t node, struct strbuf *ret)
{
	const struct root *root = &r->graph.roots.items[node - 1];
	uint32_t holder = r->root_holders[node];

	if (root->kind == ROOT_GOROUTINE)
		strbuf_addf(ret, "goroutine %" PRIu64 " (%s)",
			    r->graph.waits->goroutines[root->goroutine].id,
			    holder_name(&r->holders, holder));
	else
		add_holder(r, holder, ret);
}

/* What lies between a map and its keys and values says nothing more. */
static bool is_part_of_map(const struct retained *r, uint32_t node)
{
	uint32_t first = object_graph_first_node(&r->graph);
	enum object_form form;

	if (node < first)
		return false;
	form = r->table.items[r->object_types.items[node - first]].form;
	return form >= FORM_MAP_GROUPS && form <= FORM_MAP_DIRECTORY;
}

/* A shortest way to an object that no single root holds. */
static struct error *must_check add_shortest(struct retained *r, uint32_t node, struct strbuf *ret)
{
	uint32_t first = object_graph_first_node(&r->graph), way[MOST_STEPS], count = 0;
	bool is_cut = false;
	struct error *err = NULL;

	for (uint32_t at = r->shortest.items[node]; at && at != FLOW_NONE;
	     at = r->shortest.items[at]) {
		is_cut |= count == MOST_STEPS;
		/* The root's end of the way stays. */
		if (count == MOST_STEPS)
			memmove(way + MOST_STEPS / 2, way + MOST_STEPS / 2 + 1,
				(MOST_STEPS - MOST_STEPS / 2 - 1) * sizeof(*way));
		way[count < MOST_STEPS ? count++ : MOST_STEPS - 1] = at;
	}
	for (uint32_t i = count; i-- > 0 && !err;) {
		uint32_t to = i ? way[i - 1] : node;

		if (is_part_of_map(r, way[i]))
			continue;
		if (way[i] < first)
			add_root(r, way[i], ret);
		else
			strbuf_adds(ret, holder_tree_type(&r->holders,
							  r->object_types.items[way[i] - first]));
		err = add_field(r, way[i], to, ret);
		strbuf_adds(ret, ARROW);
		if (is_cut && i == MOST_STEPS / 2)
			strbuf_addf(ret, "\xe2\x80\xa6%s", ARROW);
	}
	return err;
}

/* The way from the top of the tree. */
static struct error *must_check add_above(struct retained *r, uint32_t holder, struct strbuf *ret)
{
	const struct holder_tree *tree = &r->holders;
	uint32_t way[MOST_STEPS], count = 0;
	struct error *err = NULL;

	if (!holder)
		return NULL;
	if (tree->items[holder].kind == HOLDER_SEVERAL)
		return NULL;
	for (uint32_t at = holder; at && tree->items[at].kind != HOLDER_SEVERAL;
	     at = tree->items[at].parent) {
		if (count == MOST_STEPS)
			memmove(way + MOST_STEPS / 2, way + MOST_STEPS / 2 + 1,
				(MOST_STEPS - MOST_STEPS / 2 - 1) * sizeof(*way));
		way[count < MOST_STEPS ? count++ : MOST_STEPS - 1] = at;
	}
	if (tree->items[tree->items[way[count - 1]].parent].kind == HOLDER_SEVERAL)
		err = add_shortest(r, tree->items[way[count - 1]].example, ret);
	for (uint32_t i = count; i-- > 0 && !err;) {
		add_holder(r, way[i], ret);
		if (i)
			err = add_field(r, tree->items[way[i - 1]].above,
					tree->items[way[i - 1]].example, ret);
		if (i)
			strbuf_adds(ret, ARROW);
	}
	return err;
}

struct error *retained_add_path(struct retained *r, const struct holder_row *row,
				struct strbuf *ret)
{
	struct error *err = add_above(r, row->last, ret);

	return err ? err : ret->failed ? &error_no_memory : NULL;
}
