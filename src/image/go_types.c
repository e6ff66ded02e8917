#include "image/go_types.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base/array.h"

/* Nested structures: no program has more, and the limit ends broken DWARF. */
#define MAX_DEPTH 64

static const struct go_type unknown = {.name = "?"};

static const struct go_type *type_of(struct go_types *types, Dwarf_Die *entry, int depth);

static struct go_type *add(struct go_types *types, Dwarf_Off offset)
{
	struct go_type *type = calloc(1, sizeof(*type));
	uint64_t *place = map_at(&types->by_offset, offset);

	if (!type || !place || !array_reserve(&types->items, &types->capacity, types->count + 1)) {
		free(type);
		return NULL;
	}
	types->items[types->count++] = type;
	*place = (uintptr_t)type;
	return type;
}

static enum go_kind base_kind(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Word encoding;

	if (!dwarf_attr(die, DW_AT_encoding, &attr) || dwarf_formudata(&attr, &encoding))
		return GO_UNKNOWN;
	switch (encoding) {
	case DW_ATE_boolean:
		return GO_BOOL;
	case DW_ATE_signed:
	case DW_ATE_signed_char:
		return GO_INT;
	case DW_ATE_unsigned:
	case DW_ATE_unsigned_char:
		return GO_UINT;
	case DW_ATE_float:
		return GO_FLOAT;
	case DW_ATE_complex_float:
		return GO_COMPLEX;
	default:
		return GO_UNKNOWN;
	}
}

static size_t count_members(Dwarf_Die *structure)
{
	Dwarf_Die child;
	size_t n = 0;

	if (dwarf_child(structure, &child))
		return 0;
	do
		n += dwarf_tag(&child) == DW_TAG_member;
	while (!dwarf_siblingof(&child, &child));
	return n;
}

static bool add_members(struct go_types *types, Dwarf_Die *structure, struct go_type *type,
			int depth)
{
	size_t most = count_members(structure);
	Dwarf_Die child;

	type->members = calloc(most + 1, sizeof(*type->members));
	if (!type->members)
		return false;
	if (!most || dwarf_child(structure, &child))
		return true;
	do {
		const char *name = dwarf_diename(&child);
		Dwarf_Attribute attr;
		Dwarf_Word offset = 0;
		struct go_member *m = &type->members[type->count];

		if (dwarf_tag(&child) != DW_TAG_member || type->count == most)
			continue;
		if (dwarf_attr(&child, DW_AT_data_member_location, &attr))
			dwarf_formudata(&attr, &offset);
		*m = (struct go_member){name ? name : "?", offset, type_of(types, &child, depth)};
		if (!m->type)
			return false;
		type->count++;
	} while (!dwarf_siblingof(&child, &child));
	return true;
}

static bool set_array(struct go_types *types, Dwarf_Die *die, struct go_type *type, int depth)
{
	type->element = type_of(types, die, depth);
	type->kind = GO_ARRAY;
	return type->element;
}

/* C's arrays do not say their size, but how many elements they have. */
static uint64_t size_of(Dwarf_Die *die)
{
	int size = dwarf_bytesize(die);
	Dwarf_Word computed;

	if (size >= 0)
		return size;
	if (dwarf_tag(die) != DW_TAG_array_type || dwarf_aggregate_size(die, &computed))
		return 0;
	return computed;
}

/* A name for another type: what that one is, under this name. */
static bool set_alias(struct go_types *types, Dwarf_Die *die, struct go_type *type, int depth)
{
	const struct go_type *other = type_of(types, die, depth);
	const char *name = type->name;

	if (!other)
		return false;
	type->kind = other->kind;
	type->size = other->size;
	type->element = other->element;
	type->points_to = other->points_to;
	if (other->count) {
		type->members = calloc(other->count, sizeof(*type->members));
		if (!type->members)
			return false;
		for (size_t i = 0; i < other->count; i++)
			type->members[i] = other->members[i];
		type->count = other->count;
	}
	type->name = name;
	return true;
}

static uint64_t pointee_of(Dwarf_Die *pointer)
{
	Dwarf_Attribute attr;
	Dwarf_Die die;

	if (!dwarf_attr(pointer, DW_AT_type, &attr) || !dwarf_formref_die(&attr, &die))
		return 0;
	return dwarf_dieoffset(&die);
}

/* DW_AT_go_runtime_type: cmd/internal/dwarf/dwarf.go. */
#define ATTRIBUTE_RUNTIME_TYPE 0x2904

static uint64_t runtime_type_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Addr address;

	if (!dwarf_attr(die, ATTRIBUTE_RUNTIME_TYPE, &attr) || dwarf_formaddr(&attr, &address))
		return 0;
	return address;
}

/* Fills in the type; false when there is no memory. */
static bool set_type(struct go_types *types, Dwarf_Die *die, struct go_type *type, int depth)
{
	const char *name = dwarf_diename(die);

	type->name = name ? name : "?";
	type->size = size_of(die);
	type->runtime_type = runtime_type_of(die);
	switch (dwarf_tag(die)) {
	case DW_TAG_base_type:
		type->kind = base_kind(die);
		return true;
	case DW_TAG_pointer_type:
	case DW_TAG_subroutine_type:
		type->kind = GO_POINTER;
		type->size = 8;
		type->points_to = pointee_of(die);
		return true;
	case DW_TAG_structure_type:
		type->kind = GO_STRUCT;
		return add_members(types, die, type, depth);
	case DW_TAG_array_type:
		return set_array(types, die, type, depth);
	case DW_TAG_typedef:
	case DW_TAG_const_type:
	case DW_TAG_volatile_type:
		return set_alias(types, die, type, depth);
	default:
		return true;
	}
}

static const struct go_type *type_at(struct go_types *types, Dwarf_Die *die, int depth)
{
	const uint64_t *known = map_find(&types->by_offset, dwarf_dieoffset(die));
	struct go_type *type;

	if (known)
		return (const struct go_type *)(uintptr_t)*known;
	type = add(types, dwarf_dieoffset(die));
	return type && set_type(types, die, type, depth + 1) ? type : NULL;
}

static const struct go_type *type_of(struct go_types *types, Dwarf_Die *entry, int depth)
{
	Dwarf_Attribute attr;
	Dwarf_Die die;

	if (depth >= MAX_DEPTH || !dwarf_attr_integrate(entry, DW_AT_type, &attr) ||
	    !dwarf_formref_die(&attr, &die))
		return &unknown;
	return type_at(types, &die, depth);
}

const struct go_type *go_types_at(struct go_types *types, Dwarf *dwarf, Dwarf_Off offset)
{
	Dwarf_Die die;

	return dwarf_offdie(dwarf, offset, &die) ? type_at(types, &die, 0) : NULL;
}

const struct go_type *go_types_of(struct go_types *types, Dwarf_Die *entry)
{
	return type_of(types, entry, 0);
}

void go_types_release(struct go_types *types)
{
	for (size_t i = 0; i < types->count; i++) {
		free(types->items[i]->members);
		free(types->items[i]);
	}
	free(types->items);
	map_release(&types->by_offset);
	*types = (struct go_types){0};
}
