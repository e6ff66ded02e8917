/* Sources: internal/abi/type.go, internal/abi/map.go; before Go 1.21 runtime/type.go. */
#include "retained/runtime_types.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

/* abi.Type, and what follows it in the types of each kind. */
enum {
	TYPE_SIZE = 0,
	TYPE_POINTER_BYTES = 8,
	TYPE_FLAGS = 20,
	TYPE_KIND = 23,
	TYPE_NAME = 40,
	TYPE_ELEMENT = 48,
	TYPE_MAP_ELEMENT = 56,
	TYPE_FIELDS = 56,
	TYPE_METHOD_COUNT = 64,
	TYPE_LENGTH = 64,
	TYPE_GROUP = 64,
	TYPE_FIELD_COUNT = 64,
	TYPE_BYTES = 72,
};
#define FIELD_BYTES 24
#define KIND_BITS 31
#define FLAG_EXTRA_STAR 2
/* The offset of a field was shifted by one up to Go 1.18. */
#define FIRST_PLAIN_OFFSET 19
#define ITAB_TYPE 8
#define ITAB_BYTES 16

#define MAX_TYPE_SIZE (1ull << 46)
#define MAX_FIELDS 4096u
#define MAX_NAME 1024u
#define MAX_NAME_BYTES 3 /* of the varint before it */
#define MAX_TYPES (1u << 20)
#define MAX_ITABS (1u << 20)
#define MAX_MEMORY (256u << 20)
#define MAX_MODULES 1024u
#define MAX_MODULEDATA 65536
#define MAX_DEPTH 64

static uint64_t word_at(const uint8_t *bytes, size_t at)
{
	uint64_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

/* ---- modules ---- */

static struct error *must_check add_module(struct runtime_types *types, uint64_t address,
					   uint64_t *ret_next)
{
	size_t size = (size_t)types->lay->n.moduledata_size;
	_cleanup_free_ uint8_t *bytes = calloc(1, size + 64);
	struct moduledata_view v = {&types->lay->n, bytes};
	struct error *err;

	*ret_next = 0;
	if (!bytes || size > MAX_MODULEDATA ||
	    !array_reserve(&types->modules, &types->module_capacity, types->module_count + 1))
		return &error_no_memory;
	err = target_read(types->t, address, bytes, size);
	if (err)
		return err;
	types->modules[types->module_count++] =
		(struct runtime_module){moduledata_view_types(v), moduledata_view_etypes(v)};
	*ret_next = moduledata_view_next(v);
	return NULL;
}

struct error *runtime_types_open(struct target *t, const struct image *img,
				 const struct golayout *lay, struct runtime_types *ret)
{
	uint64_t at = img->moduledata;
	struct error *err = NULL;

	*ret = (struct runtime_types){.t = t, .lay = lay};
	for (size_t i = 0; at && i < MAX_MODULES && !err; i++)
		err = add_module(ret, at, &at);
	if (err && err->code != ERROR_FAULT)
		return err;
	error_destroy(err);
	return NULL;
}

void runtime_types_release(struct runtime_types *types)
{
	free(types->modules);
	map_release(&types->by_address);
	map_release(&types->by_itab);
	arena_release(&types->memory);
	*types = (struct runtime_types){0};
}

static const struct runtime_module *module_of(const struct runtime_types *types, uint64_t address)
{
	for (size_t i = 0; i < types->module_count; i++)
		if (address >= types->modules[i].types && address < types->modules[i].etypes)
			return &types->modules[i];
	return NULL;
}

bool runtime_types_holds(const struct runtime_types *types, uint64_t address)
{
	return module_of(types, address);
}

/* ---- names ---- */

/* A name: flags, its length as a varint, its bytes. *ret is NULL when it is missing or empty. */
static struct error *must_check read_name(struct runtime_types *types, uint64_t address,
					  const char **ret)
{
	uint8_t head[1 + MAX_NAME_BYTES];
	size_t length = 0, n = 0;
	char *text;
	struct error *err = target_read(types->t, address, head, sizeof(head));

	*ret = NULL;
	if (err)
		return err;
	do {
		length |= (size_t)(head[1 + n] & 0x7f) << 7 * n;
	} while (head[1 + n++] & 0x80 && n < MAX_NAME_BYTES);
	if (!length || types->memory.mapped > MAX_MEMORY)
		return NULL;
	length = length < MAX_NAME ? length : MAX_NAME;
	text = arena_take(&types->memory, length + 1);
	if (!text)
		return &error_no_memory;
	err = target_read(types->t, address + 1 + n, text, length);
	if (err)
		return err;
	text[length] = 0;
	if (*text)
		*ret = text;
	return NULL;
}

static struct error *must_check read_type_name(struct runtime_types *types, const uint8_t *bytes,
					       struct runtime_type *type)
{
	const struct runtime_module *module = module_of(types, type->address);
	struct error *err;
	int32_t offset;

	memcpy(&offset, bytes + TYPE_NAME, sizeof(offset));
	if (!module || offset <= 0 || (uint64_t)offset >= module->etypes - module->types)
		return NULL;
	err = read_name(types, module->types + (uint64_t)offset, &type->name);
	if (!err && type->name && bytes[TYPE_FLAGS] & FLAG_EXTRA_STAR && *type->name == '*' &&
	    type->name[1])
		type->name++;
	return err;
}

/* ---- structures ---- */

static struct error *must_check add_fields(struct runtime_types *types, struct runtime_type *type,
					   const uint8_t *bytes, size_t count)
{
	struct runtime_field *fields =
		(struct runtime_field *)(void *)arena_take(&types->memory,
							   (count + 1) * sizeof(*fields));
	int shift = types->lay->minor < FIRST_PLAIN_OFFSET;
	uint64_t end = 0;

	if (!fields)
		return &error_no_memory;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *at = bytes + i * FIELD_BYTES;
		struct runtime_field *f = &fields[type->field_count];
		struct error *err;

		*f = (struct runtime_field){.type = word_at(at, 8),
					    .offset = word_at(at, 16) >> shift};
		/* Fields are in order, and lie in the structure. */
		if (f->offset < end || f->offset > type->size)
			break;
		end = f->offset;
		err = read_name(types, word_at(at, 0), &f->name);
		if (err && err->code != ERROR_FAULT)
			return err;
		error_destroy(err);
		f->name = f->name ? f->name : "?";
		type->field_count++;
	}
	type->fields = fields;
	return NULL;
}

static struct error *must_check read_fields(struct runtime_types *types, const uint8_t *bytes,
					    struct runtime_type *type)
{
	uint64_t at = word_at(bytes, TYPE_FIELDS), count = word_at(bytes, TYPE_FIELD_COUNT);
	_cleanup_free_ uint8_t *fields = NULL;
	struct error *err;

	if (!count || count > MAX_FIELDS || types->memory.mapped > MAX_MEMORY)
		return NULL;
	fields = malloc(count * FIELD_BYTES);
	if (!fields)
		return &error_no_memory;
	err = target_read(types->t, at, fields, count * FIELD_BYTES);
	return err ? err : add_fields(types, type, fields, count);
}

/* ---- types ---- */

static void take_parts(const uint8_t *bytes, struct runtime_type *type)
{
	switch (type->kind) {
	case KIND_ARRAY:
		type->length = word_at(bytes, TYPE_LENGTH);
		type->element = word_at(bytes, TYPE_ELEMENT);
		break;
	case KIND_CHAN:
	case KIND_POINTER:
	case KIND_SLICE:
		type->element = word_at(bytes, TYPE_ELEMENT);
		break;
	case KIND_MAP:
		type->element = word_at(bytes, TYPE_MAP_ELEMENT);
		type->group = word_at(bytes, TYPE_GROUP);
		break;
	case KIND_INTERFACE:
		type->has_methods = word_at(bytes, TYPE_METHOD_COUNT) != 0;
		break;
	default:
		break;
	}
}

/* What reads a value of these relies on their size. */
static bool has_size_of_kind(const struct runtime_type *type)
{
	static const uint8_t sizes[KIND_LAST + 1] = {
		[KIND_CHAN] = 8,    [KIND_FUNC] = 8,           [KIND_INTERFACE] = 16,
		[KIND_MAP] = 8,     [KIND_POINTER] = 8,        [KIND_SLICE] = 24,
		[KIND_STRING] = 16, [KIND_UNSAFE_POINTER] = 8,
	};

	return !sizes[type->kind] || type->size == sizes[type->kind];
}

static bool makes_sense(const struct runtime_type *type)
{
	return type->size <= MAX_TYPE_SIZE && type->pointer_bytes <= type->size &&
	       type->pointer_bytes % 8 == 0 && type->kind && type->kind <= KIND_LAST &&
	       has_size_of_kind(type);
}

static struct error *must_check read_type(struct runtime_types *types, uint64_t address,
					  struct runtime_type **ret)
{
	uint8_t bytes[TYPE_BYTES] = {0};
	struct runtime_type *type, found = {.address = address};
	struct error *err = target_read(types->t, address, bytes, sizeof(bytes));

	*ret = NULL;
	/* The shortest end earlier, and so may the memory. */
	if (err && err->code == ERROR_FAULT)
		err = target_read(types->t, address, bytes, TYPE_ELEMENT);
	if (err)
		return err;
	found.size = word_at(bytes, TYPE_SIZE);
	found.pointer_bytes = word_at(bytes, TYPE_POINTER_BYTES);
	found.kind = bytes[TYPE_KIND] & KIND_BITS;
	if (!makes_sense(&found))
		return NULL;
	take_parts(bytes, &found);
	type = (struct runtime_type *)(void *)arena_take(&types->memory, sizeof(*type));
	if (!type)
		return &error_no_memory;
	err = read_type_name(types, bytes, &found);
	if (!err && found.kind == KIND_STRUCT)
		err = read_fields(types, bytes, &found);
	*type = found;
	*ret = type;
	return err;
}

struct error *runtime_types_get(struct runtime_types *types, uint64_t address,
				const struct runtime_type **ret)
{
	const struct runtime_type **recent = &types->recent[address / 32 % 64];
	struct runtime_type *type = NULL;
	const uint64_t *known;
	struct error *err;
	uint64_t *place;

	*ret = *recent;
	if (*recent && (*recent)->address == address)
		return NULL;
	known = map_find(&types->by_address, address);
	*ret = known ? (const struct runtime_type *)(uintptr_t)*known : NULL;
	if (*ret)
		*recent = *ret;
	if (known || address < 4096 || address % 8 || types->by_address.count >= MAX_TYPES)
		return NULL;
	err = read_type(types, address, &type);
	if (err && err->code != ERROR_FAULT)
		return err;
	error_destroy(err);
	place = map_at(&types->by_address, address);
	if (!place)
		return &error_no_memory;
	*place = (uintptr_t)type;
	*ret = type;
	return NULL;
}

/* ---- interfaces ---- */

static struct error *must_check read_itab(struct runtime_types *types, uint64_t itab, uint64_t *ret)
{
	const struct runtime_type *interface, *type;
	uint8_t bytes[ITAB_BYTES];
	struct error *err = target_read(types->t, itab, bytes, sizeof(bytes));

	*ret = 0;
	if (err && err->code != ERROR_FAULT)
		return err;
	if (error_dropped(err))
		return NULL;
	err = runtime_types_get(types, word_at(bytes, 0), &interface);
	if (err || !interface || interface->kind != KIND_INTERFACE || !interface->has_methods)
		return err;
	err = runtime_types_get(types, word_at(bytes, ITAB_TYPE), &type);
	*ret = type ? type->address : 0;
	return err;
}

struct error *runtime_types_of_itab(struct runtime_types *types, uint64_t itab, uint64_t *ret)
{
	const uint64_t *known = map_find(&types->by_itab, itab);
	struct error *err;
	uint64_t *place;

	*ret = known ? *known : 0;
	if (known || itab < 4096 || itab % 8 || types->by_itab.count >= MAX_ITABS)
		return NULL;
	err = read_itab(types, itab, ret);
	if (err)
		return err;
	place = map_at(&types->by_itab, itab);
	if (!place)
		return &error_no_memory;
	*place = *ret;
	return NULL;
}

/* ---- parts ---- */

static const struct runtime_field *field_at(const struct runtime_type *type, uint64_t offset)
{
	const struct runtime_field *found = NULL;

	for (size_t i = 0; i < type->field_count && type->fields[i].offset <= offset; i++)
		found = &type->fields[i];
	return found;
}

struct error *runtime_types_part(struct runtime_types *types, const struct runtime_type *type,
				 uint64_t offset, const struct runtime_type **ret,
				 uint64_t *ret_offset)
{
	struct error *err = NULL;

	for (int depth = 0; type && !err; depth++) {
		const struct runtime_type *outer = type;

		if (depth >= MAX_DEPTH || offset >= type->size) {
			type = NULL;
		} else if (type->kind == KIND_ARRAY) {
			err = runtime_types_get(types, outer->element, &type);
			if (type && type->size)
				offset %= type->size;
		} else if (type->kind == KIND_STRUCT) {
			const struct runtime_field *f = field_at(outer, offset);

			type = NULL;
			if (f)
				err = runtime_types_get(types, f->type, &type);
			offset -= f ? f->offset : 0;
		} else {
			break;
		}
	}
	*ret = err ? NULL : type;
	*ret_offset = offset;
	return err;
}
