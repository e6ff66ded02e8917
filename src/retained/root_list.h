/*
 * The roots of a heap, with their names: global variables, the variables of goroutines, and what
 * the runtime keeps for finalizers. Each is a node of the graph; a goroutine is the node above its
 * variables.
 */
#ifndef RETAINED_ROOT_LIST_H
#define RETAINED_ROOT_LIST_H

#include "image/data_symbols.h"
#include "retained/slot_types.h"

enum root_kind {
	ROOT_GLOBAL,
	ROOT_GOROUTINE,
	ROOT_VARIABLE,  /* of a goroutine */
	ROOT_FINALIZER, /* finalizers, cleanups and weak pointers */
	ROOT_REGISTERS, /* of the threads, where the target stands still */
};

struct root {
	enum root_kind kind;
	uint32_t parent;    /* its goroutine's number + 1; 0: none */
	uint32_t goroutine; /* the caller's number */
	const char *name;   /* of the variable; NULL: not known */
	const char *function;
	uint64_t address; /* of a global variable that has no name */
};

/* A root leads to an object. */
struct root_edge {
	uint32_t root;
	uint32_t object;
	uint32_t type; /* of the object, as the variable says: in the type table */
	uint64_t slot; /* where in a global variable it is; 0: in none */
};

struct global {
	uint64_t start, end; /* in the target */
	const struct go_type *type;
};

/* What a global variable points to from the beginning (`var server = &Server{}`). It lies beside
 * the variables, and has no symbol of its own. */
struct static_value {
	uint64_t start, end;
	const char *name;           /* of the variable */
	const struct go_type *type; /* of it, or of each of its elements */
};

struct root_list {
	struct slot_types slots;
	const struct image *img;
	struct data_symbols *symbols;
	struct variables *variables;
	struct root *items;
	size_t count;
	size_t capacity;
	struct root_edge *edges;
	size_t edge_count;
	size_t edge_capacity;
	struct global *globals; /* by address */
	size_t global_count;
	size_t global_capacity;
	struct static_value *statics; /* by address, once they are sorted */
	size_t static_count;
	size_t static_capacity;
	uint32_t goroutine; /* the current goroutine's root + 1 */
	uint64_t word, cfa; /* the current frame */
	struct root_frame *frames;
	size_t frame_count;
	size_t frame_capacity;
};

struct error *root_list_open(struct target *t, const struct image *img, struct runtime_types *types,
			     struct type_table *table, struct root_list *ret) must_check;
void root_list_release(struct root_list *l);

/* The word at `slot` of a global variable has this value, which is no object. For all words, before
 * those that lead to objects; then root_list_sort_statics(). */
struct error *root_list_add_static(struct root_list *l, uint64_t slot, uint64_t value) must_check;
void root_list_sort_statics(struct root_list *l);

/* The word at `slot` of a global variable leads to this object. */
struct error *root_list_add_global(struct root_list *l, uint64_t slot, uint32_t object) must_check;
/* Once edges are sorted by root and object: the members of the global variable in which a root
 * leads to an object (".cache"). */
void root_list_add_members(const struct root_list *l, uint32_t root, uint32_t object,
			   struct strbuf *ret);
/* As root_list_add_global() for finalizers and registers. `slot` is 0 where the word is not in
 * memory. */
struct error *root_list_add_other(struct root_list *l, enum root_kind kind, uint64_t slot,
				  uint32_t object) must_check;

/* What follows is of this goroutine, which may lead to objects itself. */
struct error *root_list_begin_goroutine(struct root_list *l, uint32_t goroutine) must_check;
struct error *root_list_add_to_goroutine(struct root_list *l, uint32_t object) must_check;
/* And of this frame; word 0: of none. */
struct error *root_list_begin_frame(struct root_list *l, uint64_t word, uint64_t cfa) must_check;
struct error *root_list_add_variable(struct root_list *l, uint64_t slot,
				     uint32_t object) must_check;

#endif
