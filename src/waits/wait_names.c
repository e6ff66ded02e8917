/*
 * The name of an object in the source. By symbols: the global variable that is the object, or that
 * points to it. By DWARF: a variable in a frame of a waiter that points to the object, or to the
 * structure that contains it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "image/data_symbols.h"
#include "image/dwarf_variables.h"
#include "waits/room.h"

/* The objects to find in frames, and the frames. */
#define MAX_NAMED 1000
#define MAX_WAITERS 3
#define MAX_FRAMES 24
#define MAX_DEPTH 8
/* The bytes of the program's variables that are searched for pointers. */
#define MAX_GLOBALS (256u << 20)

struct names {
	struct wait_graph *w;
	struct data_symbols *symbols;
	struct variables *variables;
	bool no_variables; /* there is no DWARF */
};

static void names_close(struct names *n)
{
	data_symbols_close(n->symbols);
	variables_close(n->variables);
}

static bool has_name(enum wait_kind kind)
{
	return kind <= WAIT_CHANNEL || kind == WAIT_SEMAPHORE;
}

/* ---- global variables ---- */

static struct error *name_global(const struct names *n, struct wait_object *o)
{
	uint64_t offset;
	const char *symbol = data_symbols_find(n->symbols, o->address, &offset);

	if (!symbol)
		return NULL;
	o->is_global = true;
	o->name = offset ? wait_keep(n->w, "%s+0x%lx", symbol, offset)
			 : wait_keep(n->w, "%s", symbol);
	return o->name ? NULL : &error_no_memory;
}

/* Searches the writable memory of the program's file for pointers to objects. */
static struct error *search_segment(const struct names *n, const struct elf_segment *segment,
				    const struct map *wanted)
{
	uint64_t start = segment->address + n->w->img->bias;
	size_t size = segment->memory_size & ~7ull;
	_cleanup_free_ uint64_t *words = size && size <= MAX_GLOBALS ? malloc(size) : NULL;
	struct error *err;

	if (!words)
		return NULL;
	err = target_read(n->w->t, start, words, size);
	if (err && err->code != ERROR_FAULT)
		return err;
	if (error_dropped(err))
		return NULL;
	for (size_t i = 0; i < size / 8; i++) {
		const uint64_t *place = words[i] ? map_find(wanted, words[i]) : NULL;
		struct wait_object *o = place ? &n->w->objects[*place - 1] : NULL;
		const char *symbol;
		uint64_t offset;

		if (!o)
			continue;
		symbol = n->symbols ? data_symbols_find(n->symbols, start + i * 8, &offset) : NULL;
		/* The runtime's lists of waiters do not make an object global. */
		if (symbol && !strncmp(symbol, "runtime.", 8))
			continue;
		o->is_global = true;
		if (!symbol || *o->name)
			continue;
		o->name = offset ? wait_keep(n->w, "%s+0x%lx", symbol, offset)
				 : wait_keep(n->w, "%s", symbol);
		if (!o->name)
			return &error_no_memory;
	}
	return NULL;
}

static struct error *name_globals(const struct names *n)
{
	_cleanup_map_ struct map wanted = {0};
	const struct elf_segment *segments;
	size_t count = elf_file_segments(n->w->img->elf, &segments);
	struct error *err = NULL;

	for (size_t i = 0; !err && i < n->w->object_count; i++) {
		struct wait_object *o = &n->w->objects[i];
		uint64_t *place;

		if (!o->address || !has_name(o->kind))
			continue;
		if (n->symbols)
			err = name_global(n, o);
		place = map_at(&wanted, o->address);
		if (!place)
			return &error_no_memory;
		*place = i + 1;
	}
	for (size_t i = 0; !err && wanted.count && i < count; i++)
		if (segments[i].writable)
			err = search_segment(n, &segments[i], &wanted);
	return err;
}

/* ---- variables of frames ---- */

static bool is_whole(const struct go_type *type)
{
	return !strncmp(type->name, "sync.", 5);
}

/* The member at this offset: "mu", "shards[3].mu". */
static void add_path(struct strbuf *sb, const struct go_type *type, uint64_t offset)
{
	for (int depth = 0; type && depth < MAX_DEPTH && !is_whole(type); depth++) {
		if (type->kind == GO_ARRAY && type->element && type->element->size) {
			strbuf_addf(sb, "[%lu]", offset / type->element->size);
			offset %= type->element->size;
			type = type->element;
			continue;
		}
		const struct go_member *found = NULL;

		for (size_t i = 0; type->kind == GO_STRUCT && i < type->count; i++)
			if (type->members[i].offset <= offset &&
			    offset - type->members[i].offset < type->members[i].type->size)
				found = &type->members[i];
		if (!found)
			return;
		if (sb->length)
			strbuf_addc(sb, '.');
		strbuf_adds(sb, found->name);
		offset -= found->offset;
		type = found->type;
	}
}

/* A variable that escaped to the heap is in DWARF as "&mu", a pointer to it. */
static const char *bare(const char *name)
{
	return *name == '&' ? name + 1 : name;
}

static const char *describe(const struct names *n, const struct variable *v,
			    const struct go_type *pointee, uint64_t offset, const char *function)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

	if (pointee)
		add_path(&path, pointee, offset);
	if (path.failed)
		return NULL;
	if (path.length && *v->name == '&')
		return wait_keep(n->w, "%s%s%s in %s", bare(v->name), *path.data == '[' ? "" : ".",
				 path.data, function);
	if (path.length)
		return wait_keep(n->w, "field %s of %s in variable %s of %s", path.data,
				 pointee->name, v->name, function);
	return wait_keep(n->w, "variable %s of %s", bare(v->name), function);
}

/* Whether the variable points to the object, or to the structure that contains it. */
static const char *match(const struct names *n, const struct wait_stack *s, const struct frame *f,
			 const struct variable *v, uint64_t address, const char *function)
{
	const struct go_type *pointee;
	uint64_t word;

	if (v->in_register || v->from || v->size != 8 || v->type->kind != GO_POINTER ||
	    !wait_stack_word(s, f->cfa + v->place, &word) || !word || word > address)
		return NULL;
	pointee = variables_pointee(n->variables, v->type);
	if (word == address &&
	    (!pointee || !strncmp(v->type->name, "chan ", 5) || is_whole(pointee)))
		return describe(n, v, NULL, 0, function);
	if (!pointee || address - word >= pointee->size)
		return NULL;
	return describe(n, v, pointee, address - word, function);
}

static struct error *name_by_frame(const struct names *n, const struct wait_stack *s,
				   const struct frame *f, struct wait_object *o)
{
	const struct image *img = n->w->img;
	uint64_t pc = stack_pc_address(f->word) - img->bias;
	const struct variable *items;
	struct go_frame frame;
	size_t count;
	struct error *err;

	if (!pclntab_frames(&img->functions, f->word, &frame, 1) ||
	    wait_is_package(frame.function, "runtime"))
		return NULL;
	err = variables_at(n->variables, pc, !(f->word & STACK_PC_EXACT), &items, &count);
	for (size_t i = 0; !err && i < count && !*o->name; i++) {
		const char *function = items[i].inlined ? items[i].inlined : frame.function;
		const char *name;

		/* Names of variables in package sync are of no use. */
		if (wait_is_package(function, "sync") || wait_is_package(function, "internal"))
			continue;
		name = match(n, s, f, &items[i], o->address, function);
		if (name)
			o->name = name;
	}
	return err;
}

static struct error *name_by_waiter(const struct names *n, const struct wait_goroutine *g,
				    struct wait_object *o)
{
	_cleanup_wait_stack_ struct wait_stack s = {0};
	bool ok;
	struct error *err = wait_stack_read(n->w, g, WAITS_MAX_STACK, &s, &ok);

	for (size_t i = 0; !err && ok && i < s.frames.count && i < MAX_FRAMES && !*o->name; i++)
		err = name_by_frame(n, &s, &s.frames.items[i], o);
	return err;
}

/* DWARF is opened for the first object that needs it. Broken DWARF counts as none. */
static struct error *open_variables(struct names *n)
{
	const struct image *img = n->w->img;
	struct error *err;

	if (n->variables || n->no_variables)
		return NULL;
	err = variables_open(img->elf, &n->variables);
	if (!err && !n->variables && img->unstripped)
		err = variables_open(img->unstripped, &n->variables);
	n->no_variables = !n->variables;
	if (!err || err->code != ERROR_CORRUPT)
		return err;
	error_destroy(err);
	return NULL;
}

static struct error *name_others(struct names *n)
{
	struct error *err = NULL;
	size_t named = 0;

	for (size_t i = 0; !err && i < n->w->object_count && named < MAX_NAMED; i++) {
		struct wait_object *o = &n->w->objects[i];

		if (!o->address || !has_name(o->kind) || *o->name)
			continue;
		err = open_variables(n);
		if (err || !n->variables)
			return err;
		named++;
		for (size_t k = 0; !err && k < o->waiter_count && k < MAX_WAITERS && !*o->name; k++)
			err = name_by_waiter(n,
					     &n->w->goroutines[n->w->edges[o->waiters[k]]
								       .goroutine],
					     o);
	}
	return err;
}

struct error *wait_graph_name(struct wait_graph *w)
{
	_cleanup_(names_close) struct names n = {.w = w};
	struct error *err = data_symbols_open(w->img, &n.symbols);

	if (!err)
		err = name_globals(&n);
	return err ? err : name_others(&n);
}
