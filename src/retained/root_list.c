#include "retained/root_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

#define MAX_ROOTS (1u << 28)
#define MAX_GLOBALS (1u << 22)
#define MAX_STATICS (1u << 20)
#define SLICE_CAPACITY 16
/* From where a finalizer has its argument: fint and ot. */
#define FINALIZER_TYPES 16

struct root_frame {
	uint64_t word, cfa;
};

/* ---- opening ---- */

static bool take_global(void *arg, const char *name, uint64_t address, const struct go_type *type)
{
	struct root_list *l = arg;
	uint64_t start = address + l->img->bias;

	if (!type->size || l->global_count >= MAX_GLOBALS)
		return true;
	if (!array_reserve(&l->globals, &l->global_capacity, l->global_count + 1))
		return false;
	l->globals[l->global_count++] = (struct global){start, start + type->size, type};
	return true;
}

static int compare_globals(const void *a, const void *b)
{
	const struct global *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Broken DWARF counts as none. */
static struct error *must_check open_variables(struct root_list *l)
{
	const struct image *img = l->img;
	struct error *err = variables_open(img->elf, &l->variables);

	if (!err && !l->variables && img->unstripped)
		err = variables_open(img->unstripped, &l->variables);
	if (err && err->code != ERROR_CORRUPT)
		return err;
	error_destroy(err);
	if (!l->variables)
		return NULL;
	err = variables_globals(l->variables, take_global, l);
	if (!err && l->global_count)
		qsort(l->globals, l->global_count, sizeof(*l->globals), compare_globals);
	return err;
}

struct error *root_list_open(struct target *t, const struct image *img, struct runtime_types *types,
			     struct type_table *table, struct root_list *ret)
{
	struct error *err;

	*ret = (struct root_list){
		.img = img,
		.slots = {.t = t, .bias = img->bias, .types = types, .table = table},
	};
	err = data_symbols_open(img, &ret->symbols);
	if (!err)
		err = open_variables(ret);
	ret->slots.variables = ret->variables;
	return err;
}

void root_list_release(struct root_list *l)
{
	data_symbols_close(l->symbols);
	variables_close(l->variables);
	free(l->items);
	free(l->edges);
	free(l->globals);
	free(l->statics);
	free(l->frames);
	*l = (struct root_list){0};
}

/* ---- adding ---- */

static struct root *last_root(const struct root_list *l)
{
	return l->count ? &l->items[l->count - 1] : NULL;
}

static struct error *must_check add_root(struct root_list *l, const struct root *root)
{
	if (l->count >= MAX_ROOTS || !array_reserve(&l->items, &l->capacity, l->count + 1))
		return &error_no_memory;
	l->items[l->count++] = *root;
	return NULL;
}

static struct error *must_check add_edge(struct root_list *l, size_t root, uint32_t object,
					 uint32_t type)
{
	if (!array_reserve(&l->edges, &l->edge_capacity, l->edge_count + 1))
		return &error_no_memory;
	l->edges[l->edge_count++] = (struct root_edge){(uint32_t)root, object, type, 0};
	return NULL;
}

/* ---- global variables ---- */

static const struct global *global_at(const struct root_list *l, uint64_t address)
{
	size_t low = 0, high = l->global_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (l->globals[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < l->globals[low - 1].end ? &l->globals[low - 1] : NULL;
}

struct error *root_list_add_static(struct root_list *l, uint64_t slot, uint64_t value)
{
	const struct global *global = l->symbols ? global_at(l, slot) : NULL;
	uint64_t offset, count = 1, size;
	const struct go_type *type;
	const char *name;
	bool is_slice;

	if (!global || l->static_count >= MAX_STATICS ||
	    data_symbols_find(l->symbols, value, &offset))
		return NULL;
	name = data_symbols_find(l->symbols, slot, &offset);
	type = slot_pointee(&l->slots, global->type, slot - global->start, &is_slice);
	if (!name || !type || !type->size)
		return NULL;
	if (is_slice && error_dropped(target_read_u64(l->slots.t, slot + SLICE_CAPACITY, &count)))
		return NULL;
	if (__builtin_mul_overflow(type->size, count, &size) || value + size <= value)
		return NULL;
	if (!array_reserve(&l->statics, &l->static_capacity, l->static_count + 1))
		return &error_no_memory;
	l->statics[l->static_count++] = (struct static_value){value, value + size, name, type};
	return NULL;
}

static int compare_statics(const void *a, const void *b)
{
	const struct static_value *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

void root_list_sort_statics(struct root_list *l)
{
	if (l->static_count)
		qsort(l->statics, l->static_count, sizeof(*l->statics), compare_statics);
}

static const struct static_value *static_at(const struct root_list *l, uint64_t address)
{
	size_t low = 0, high = l->static_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (l->statics[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < l->statics[low - 1].end ? &l->statics[low - 1] : NULL;
}

struct error *root_list_add_global(struct root_list *l, uint64_t slot, uint32_t object)
{
	const struct global *global = global_at(l, slot);
	const struct root *last = last_root(l);
	const struct static_value *value;
	struct root root = {.kind = ROOT_GLOBAL};
	uint32_t type = TYPE_UNKNOWN;
	struct error *err = NULL;
	uint64_t offset;

	root.name = l->symbols ? data_symbols_find(l->symbols, slot, &offset) : NULL;
	value = root.name ? NULL : static_at(l, slot);
	if (value)
		root.name = value->name;
	if (!root.name)
		root.address = slot;
	if (!last || last->kind != ROOT_GLOBAL || last->name != root.name || !root.name)
		err = add_root(l, &root);
	if (!err && global)
		err = slot_type(&l->slots, global->type, slot - global->start, slot, &type);
	else if (!err && value)
		err = slot_type(&l->slots, value->type, (slot - value->start) % value->type->size,
				slot, &type);
	if (!err)
		err = add_edge(l, l->count - 1, object, type);
	if (!err)
		l->edges[l->edge_count - 1].slot = slot;
	return err;
}

void root_list_add_members(const struct root_list *l, uint32_t root, uint32_t object,
			   struct strbuf *ret)
{
	size_t low = 0, high = l->edge_count;
	const struct static_value *value;
	const struct global *global;
	uint64_t slot;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct root_edge *e = &l->edges[middle];

		if (e->root < root || (e->root == root && e->object < object))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == l->edge_count || l->edges[low].root != root || l->edges[low].object != object)
		return;
	slot = l->edges[low].slot;
	global = global_at(l, slot);
	value = global ? NULL : static_at(l, slot);
	if (global)
		slot_add_members(global->type, slot - global->start, ret);
	else if (value)
		slot_add_members(value->type, (slot - value->start) % value->type->size, ret);
}

/* A finalizer that waits to be run has the type of the pointer that it will be given
 * (runtime.finalizer: fn, arg, nret, fint, ot). */
static struct error *must_check finalized_type(struct root_list *l, uint64_t slot, uint32_t *ret)
{
	const struct runtime_type *type = NULL;
	uint64_t words[2];
	struct error *err = target_read(l->slots.t, slot + FINALIZER_TYPES, words, sizeof(words));

	*ret = TYPE_UNKNOWN;
	if (err && err->code != ERROR_FAULT)
		return err;
	/* Other words of it have something else there. */
	if (error_dropped(err) || !runtime_types_holds(l->slots.types, words[0]) ||
	    !runtime_types_holds(l->slots.types, words[1]))
		return NULL;
	err = runtime_types_get(l->slots.types, words[1], &type);
	if (err || !type || type->kind != KIND_POINTER)
		return err;
	*ret = type_table_id(l->slots.table, FORM_VALUE, type->element);
	return *ret == TYPE_FAILED ? &error_no_memory : NULL;
}

struct error *root_list_add_other(struct root_list *l, enum root_kind kind, uint64_t slot,
				  uint32_t object)
{
	const struct root *last = last_root(l);
	uint32_t type = TYPE_UNKNOWN;
	struct error *err = NULL;

	if (!last || last->kind != kind)
		err = add_root(l, &(struct root){.kind = kind});
	if (!err && kind == ROOT_FINALIZER && slot)
		err = finalized_type(l, slot, &type);
	return err ? err : add_edge(l, l->count - 1, object, type);
}

/* ---- goroutines ---- */

struct error *root_list_begin_goroutine(struct root_list *l, uint32_t goroutine)
{
	struct error *err =
		add_root(l, &(struct root){.kind = ROOT_GOROUTINE, .goroutine = goroutine});

	l->goroutine = (uint32_t)l->count;
	l->frame_count = 0;
	l->word = l->cfa = 0;
	return err;
}

struct error *root_list_add_to_goroutine(struct root_list *l, uint32_t object)
{
	return add_edge(l, l->goroutine - 1, object, TYPE_UNKNOWN);
}

struct error *root_list_begin_frame(struct root_list *l, uint64_t word, uint64_t cfa)
{
	l->word = word;
	l->cfa = cfa;
	if (!word)
		return NULL;
	if (!array_reserve(&l->frames, &l->frame_capacity, l->frame_count + 1))
		return &error_no_memory;
	l->frames[l->frame_count++] = (struct root_frame){word, cfa};
	return NULL;
}

/* The current frame; for words of none, the one in which the address is. */
static struct root_frame frame_of(const struct root_list *l, uint64_t slot)
{
	size_t low = 0, high = l->frame_count;

	if (l->word)
		return (struct root_frame){l->word, l->cfa};
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (l->frames[middle].cfa <= slot)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->frame_count ? l->frames[low] : (struct root_frame){0};
}

/* The variable of the frame in which the word is. */
static struct error *must_check variable_at(struct root_list *l, const struct root_frame *f,
					    uint64_t slot, const struct variable **ret)
{
	int64_t place = (int64_t)(slot - f->cfa);
	const struct variable *items;
	size_t count = 0;
	struct error *err;

	*ret = NULL;
	if (!f->word || !l->variables)
		return NULL;
	err = variables_at(l->variables, stack_pc_address(f->word) - l->img->bias,
			   !(f->word & STACK_PC_EXACT), &items, &count);
	for (size_t i = 0; !err && i < count; i++)
		if (!items[i].in_register && place >= items[i].place &&
		    (uint64_t)(place - items[i].place) < items[i].size)
			*ret = &items[i];
	return err;
}

static const char *function_of(const struct root_list *l, uint64_t word)
{
	struct go_func f;

	if (!word || !pclntab_find(&l->img->functions, stack_pc_lookup(word), &f))
		return NULL;
	return f.name;
}

struct error *root_list_add_variable(struct root_list *l, uint64_t slot, uint32_t object)
{
	const struct root_frame frame = frame_of(l, slot);
	const struct root *last = last_root(l);
	const struct variable *v;
	uint32_t type = TYPE_UNKNOWN;
	struct error *err = variable_at(l, &frame, slot, &v);
	struct root root = {.kind = ROOT_VARIABLE,
			    .parent = l->goroutine,
			    .goroutine = l->items[l->goroutine - 1].goroutine};

	if (err)
		return err;
	root.name = v ? v->name : NULL;
	root.function = v && v->inlined ? v->inlined : function_of(l, frame.word);
	if (last->kind != ROOT_VARIABLE || last->parent != root.parent || last->name != root.name ||
	    last->function != root.function)
		err = add_root(l, &root);
	if (!err && v)
		err = slot_type(&l->slots, v->type,
				v->from + (slot - frame.cfa - (uint64_t)v->place), slot, &type);
	return err ? err : add_edge(l, l->count - 1, object, type);
}
