#include "retained/slot_types.h"

#include <string.h>

#define MAX_DEPTH 16

static struct error *must_check number_of(const struct slot_types *s, enum object_form form,
					  uint64_t type, uint32_t *ret)
{
	*ret = type || form == FORM_STRING || form == FORM_CLOSURE
		       ? type_table_id(s->table, form, type)
		       : TYPE_UNKNOWN;
	return *ret == TYPE_FAILED ? &error_no_memory : NULL;
}

/* The type of the value in an interface whose data word is at `slot`; the other one is before it.
 */
static struct error *must_check type_in_interface(const struct slot_types *s, bool has_methods,
						  uint64_t slot, const struct runtime_type **ret)
{
	uint64_t word = 0;
	struct error *err = target_read_u64(s->t, slot - 8, &word);

	*ret = NULL;
	if (err && err->code != ERROR_FAULT)
		return err;
	error_destroy(err);
	err = NULL;
	if (has_methods)
		err = runtime_types_of_itab(s->types, word, &word);
	return err ? err : runtime_types_get(s->types, word, ret);
}

static struct error *must_check by_part(const struct slot_types *s, const struct runtime_type *part,
					uint64_t offset, uint64_t slot, int depth, uint32_t *ret)
{
	const struct runtime_type *type;
	uint64_t in_part;
	struct error *err;

	*ret = TYPE_UNKNOWN;
	if (!part || depth > MAX_DEPTH)
		return NULL;
	if (part->kind == KIND_INTERFACE && offset == 8) {
		err = type_in_interface(s, part->has_methods, slot, &type);
		if (err || !type)
			return err;
		if (!runtime_type_is_direct(type))
			return number_of(s, FORM_VALUE, type->address, ret);
		err = runtime_types_part(s->types, type, 0, &part, &in_part);
		return err ? err : by_part(s, part, in_part, slot, depth + 1, ret);
	}
	if (offset)
		return NULL;
	switch (part->kind) {
	case KIND_POINTER:
		return number_of(s, FORM_VALUE, part->element, ret);
	case KIND_SLICE:
		return number_of(s, FORM_ARRAY, part->element, ret);
	case KIND_STRING:
		return number_of(s, FORM_STRING, 0, ret);
	case KIND_MAP:
		return number_of(s, FORM_MAP, part->address, ret);
	case KIND_CHAN:
		return number_of(s, FORM_CHAN, part->address, ret);
	case KIND_FUNC:
		return number_of(s, FORM_CLOSURE, 0, ret);
	default:
		return NULL;
	}
}

struct error *slot_type_by_runtime(const struct slot_types *s, const struct runtime_type *type,
				   uint64_t offset, uint64_t slot, uint32_t *ret)
{
	const struct runtime_type *part;
	uint64_t in_part;
	struct error *err = runtime_types_part(s->types, type, offset, &part, &in_part);

	*ret = TYPE_UNKNOWN;
	return err ? err : by_part(s, part, in_part, slot, 0, ret);
}

/* ---- what the runtime has no type of ---- */

/* DWARF has the address; in Go 1.27 the distance from where the program's types begin. */
static uint64_t runtime_address(const struct slot_types *s, const struct go_type *type)
{
	uint64_t address = type ? type->runtime_type : 0;

	if (!address || !s->types->module_count)
		return 0;
	if (runtime_types_holds(s->types, address + s->bias))
		return address + s->bias;
	address += s->types->modules[0].types;
	return runtime_types_holds(s->types, address) ? address : 0;
}

static bool has_members(const struct go_type *type, const char *first, const char *second,
			size_t count)
{
	return type->kind == GO_STRUCT && type->count == count &&
	       !strcmp(type->members[0].name, first) && !strcmp(type->members[1].name, second);
}

static const struct go_member *member_at(const struct go_type *type, uint64_t offset)
{
	for (size_t i = 0; i < type->count; i++)
		if (offset >= type->members[i].offset &&
		    offset - type->members[i].offset < type->members[i].type->size)
			return &type->members[i];
	return NULL;
}

static struct error *must_check by_interface(const struct slot_types *s, const struct go_type *type,
					     uint64_t offset, uint64_t slot, uint32_t *ret)
{
	const struct runtime_type interface = {.kind = KIND_INTERFACE,
					       .has_methods = !strcmp(type->members[0].name, "tab"),
					       .size = 16};

	return by_part(s, &interface, offset, slot, 0, ret);
}

static bool is_function(const struct go_type *type)
{
	return type && !strncmp(type->name, "func(", 5);
}

static struct error *must_check by_pointer(const struct slot_types *s, const struct go_type *type,
					   enum object_form form, uint32_t *ret)
{
	const struct go_type *pointee = variables_pointee(s->variables, type);

	if (is_function(type) || is_function(pointee))
		return number_of(s, FORM_CLOSURE, 0, ret);
	return number_of(s, form, runtime_address(s, pointee), ret);
}

struct error *slot_type(const struct slot_types *s, const struct go_type *type, uint64_t offset,
			uint64_t slot, uint32_t *ret)
{
	*ret = TYPE_UNKNOWN;
	for (int depth = 0; type && depth < MAX_DEPTH && offset < type->size; depth++) {
		const struct runtime_type *known;
		const struct go_member *member;
		struct error *err = runtime_types_get(s->types, runtime_address(s, type), &known);

		if (err || known)
			return err ? err : slot_type_by_runtime(s, known, offset, slot, ret);
		if (type->kind == GO_POINTER)
			return by_pointer(s, type, FORM_VALUE, ret);
		if (has_members(type, "array", "len", 3))
			return offset ? NULL
				      : by_pointer(s, type->members[0].type, FORM_ARRAY, ret);
		if (has_members(type, "str", "len", 2))
			return offset ? NULL : number_of(s, FORM_STRING, 0, ret);
		if (has_members(type, "tab", "data", 2) || has_members(type, "_type", "data", 2))
			return by_interface(s, type, offset, slot, ret);
		if (type->kind == GO_ARRAY && type->element && type->element->size) {
			offset %= type->element->size;
			type = type->element;
			continue;
		}
		member = type->kind == GO_STRUCT ? member_at(type, offset) : NULL;
		offset -= member ? member->offset : 0;
		type = member ? member->type : NULL;
	}
	return NULL;
}

const struct go_type *slot_pointee(const struct slot_types *s, const struct go_type *type,
				   uint64_t offset, bool *ret_is_slice)
{
	*ret_is_slice = false;
	for (int depth = 0; type && depth < MAX_DEPTH && offset < type->size; depth++) {
		const struct go_member *member;

		if (type->kind == GO_POINTER)
			return variables_pointee(s->variables, type);
		*ret_is_slice = has_members(type, "array", "len", 3);
		if (type->kind == GO_ARRAY && type->element && type->element->size) {
			offset %= type->element->size;
			type = type->element;
			continue;
		}
		member = type->kind == GO_STRUCT ? member_at(type, offset) : NULL;
		offset -= member ? member->offset : 0;
		type = member ? member->type : NULL;
	}
	return NULL;
}

/* Strings, slices and interfaces are one value. */
static bool is_single(const struct go_type *type)
{
	return has_members(type, "array", "len", 3) || has_members(type, "str", "len", 2) ||
	       has_members(type, "tab", "data", 2) || has_members(type, "_type", "data", 2);
}

void slot_add_members(const struct go_type *type, uint64_t offset, struct strbuf *ret)
{
	for (int depth = 0; type && depth < MAX_DEPTH && offset < type->size; depth++) {
		const struct go_member *member;

		if (type->kind == GO_ARRAY && type->element && type->element->size) {
			strbuf_adds(ret, "[]");
			offset %= type->element->size;
			type = type->element;
			continue;
		}
		if (type->kind != GO_STRUCT || is_single(type))
			return;
		member = member_at(type, offset);
		if (!member)
			return;
		strbuf_addf(ret, ".%s", member->name);
		offset -= member->offset;
		type = member->type;
	}
}
