/* What objects are: a value of a type, or a part of a map, channel ... Each has a small number. */
#ifndef RETAINED_TYPE_TABLE_H
#define RETAINED_TYPE_TABLE_H

#include "base/map.h"
#include "base/strbuf.h"
#include "image/pclntab.h"
#include "retained/runtime_types.h"

enum object_form {
	FORM_UNKNOWN,       /* `type` is the size of the object * 2, and 1 if it has no pointers */
	FORM_VALUE,         /* of a type */
	FORM_ARRAY,         /* values of a type, in a row */
	FORM_STRING,        /* the bytes of a string */
	FORM_MAP,           /* its header; `type` is that of the map here and in the next three */
	FORM_MAP_GROUPS,    /* its keys and values: buckets up to Go 1.23, later groups */
	FORM_MAP_TABLE,     /* Go 1.24 on */
	FORM_MAP_DIRECTORY, /* of tables */
	FORM_CHAN,          /* `type` is that of the channel */
	FORM_CLOSURE,       /* `type` is the address of its code; 0: not read yet */
};

struct object_type {
	enum object_form form;
	uint64_t type;
};

struct type_table {
	struct object_type *items; /* the first is unknown, of any size */
	size_t count;
	size_t capacity;
	struct map index;
	uint32_t recent[64]; /* by some bits of the type: numbers that were asked for last */
};

#define TYPE_UNKNOWN 0u
#define TYPE_FAILED UINT32_MAX
/* Numbers leave some bits free. */
#define TYPE_MOST (1u << 28)

/* TYPE_FAILED: no memory. */
uint32_t type_table_id(struct type_table *table, enum object_form form, uint64_t type);
/* The number that it has already; TYPE_UNKNOWN: none. */
uint32_t type_table_find(const struct type_table *table, enum object_form form, uint64_t type);
void type_table_release(struct type_table *table);

/* The name of the type, for tables: "main.T", "[]main.T", "string", "map[string]int (entries)". */
struct error *type_table_name(const struct type_table *table, struct runtime_types *types,
			      const struct pclntab *functions, uint32_t id,
			      struct strbuf *ret) must_check;

#endif
