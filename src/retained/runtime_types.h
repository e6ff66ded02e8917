/*
 * Types as the runtime keeps them (internal/abi.Type): their names, and what lies where in their
 * values. Stripped programs have them too. Each is read once; their memory is the target's, so each
 * number in it is bounded.
 */
#ifndef RETAINED_RUNTIME_TYPES_H
#define RETAINED_RUNTIME_TYPES_H

#include "base/arena.h"
#include "base/map.h"
#include "golayout/view.h"

enum runtime_kind {
	KIND_ARRAY = 17,
	KIND_CHAN,
	KIND_FUNC,
	KIND_INTERFACE,
	KIND_MAP,
	KIND_POINTER,
	KIND_SLICE,
	KIND_STRING,
	KIND_STRUCT,
	KIND_UNSAFE_POINTER,
	KIND_LAST = KIND_UNSAFE_POINTER,
};

struct runtime_field {
	const char *name;
	uint64_t offset;
	uint64_t type;
};

struct runtime_type {
	uint64_t address;
	uint64_t size;
	uint64_t pointer_bytes; /* the first bytes, which hold all pointers */
	uint8_t kind;           /* enum runtime_kind, or one without pointers */
	bool has_methods;       /* an interface: its first word is an itab */
	const char *name;       /* as reflect prints it: "*main.T"; NULL: not known */
	uint64_t element;       /* of an array, channel, pointer or slice; the values of a map */
	uint64_t group;         /* of a map: the type of its buckets or groups */
	uint64_t length;        /* of an array */
	const struct runtime_field *fields; /* of a structure, by offset */
	size_t field_count;
};

struct runtime_module {
	uint64_t types, etypes;
};

struct runtime_types {
	struct target *t;
	const struct golayout *lay;
	struct runtime_module *modules;
	size_t module_count;
	size_t module_capacity;
	struct map by_address;                 /* -> struct runtime_type *, or 0 */
	const struct runtime_type *recent[64]; /* by some bits of the address */
	struct map by_itab;                    /* -> the address of the type, or 0 */
	struct arena memory;
};

struct error *runtime_types_open(struct target *t, const struct image *img,
				 const struct golayout *lay, struct runtime_types *ret) must_check;
void runtime_types_release(struct runtime_types *types);

/* *ret is NULL when no type is there. */
struct error *runtime_types_get(struct runtime_types *types, uint64_t address,
				const struct runtime_type **ret) must_check;

/* The type of the values in interfaces with this itab; 0: it is none. */
struct error *runtime_types_of_itab(struct runtime_types *types, uint64_t itab,
				    uint64_t *ret) must_check;

/* Whether it lies where the program's modules keep types. */
bool runtime_types_holds(const struct runtime_types *types, uint64_t address);

/* Whether an interface has values of this type in its data word, not their address. */
static inline bool runtime_type_is_direct(const struct runtime_type *type)
{
	return type->size == 8 && type->pointer_bytes == 8 &&
	       (type->kind >= KIND_ARRAY && type->kind != KIND_STRING);
}

/* The part of a value in which this offset is: a pointer, slice, string, map ... *ret_offset is the
 * offset in it. */
struct error *runtime_types_part(struct runtime_types *types, const struct runtime_type *type,
				 uint64_t offset, const struct runtime_type **ret,
				 uint64_t *ret_offset) must_check;

#endif
