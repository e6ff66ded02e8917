#include "image/type_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* abi.Type; behind it, what a pointer and a structure have. */
enum {
	TYPE_FLAGS = 20,
	TYPE_KIND = 23,
	TYPE_NAME = 40, /* from moduledata.types on */
	POINTER_ELEMENT = 48,
	POINTER_BYTES = 56,
	STRUCT_FIELDS = 56,
	STRUCT_FIELD_COUNT = 64,
	STRUCT_PACKAGE = 80, /* abi.UncommonType.PkgPath: from moduledata.types on */
	STRUCT_BYTES = 96,
	FIELD_NAME = 0,
	FIELD_OFFSET = 16,
	FIELD_BYTES = 24,
};

/* FLAG_NAMED: abi.TFlagUncommon. */
enum { KIND_POINTER = 22, KIND_STRUCT = 25, KIND_BITS = 31, FLAG_NAMED = 1 };
enum { MAX_NAME = 200, MAX_FIELDS = 1000 };

/* The words of moduledata with the beginning and, at most so many words behind, the end. Variables
 * for coverage came before them in Go 1.20; a length between them in Go 1.27. */
enum { MD_TYPES_OLD = 35, MD_TYPES = 37, MD_WORDS = 40, FIRST_WITH_COVERAGE = 20 };

/* Up to Go 1.18 a field's offset was shifted, for a bit that says whether it is embedded. */
enum { LAST_SHIFTED = 18 };

#define MAX_BYTES (256ull << 20)

static struct error *must_check find_range(struct target *t, const struct image *img, int minor,
					   struct type_data *ret)
{
	uint64_t words[MD_WORDS], end;
	int at = minor < FIRST_WITH_COVERAGE ? MD_TYPES_OLD : MD_TYPES;
	struct error *err = target_read(t, img->moduledata, words, sizeof(words));

	if (err)
		return err;
	ret->start = words[at];
	end = words[at + 1] > ret->start ? words[at + 1] : words[at + 2];
	if (ret->start && end > ret->start && end - ret->start <= MAX_BYTES)
		ret->size = end - ret->start;
	return NULL;
}

struct error *type_data_read(struct target *t, const struct image *img, int minor,
			     struct type_data *ret)
{
	struct type_data types = {.minor = minor};
	struct error *err = find_range(t, img, minor, &types);

	if (err)
		return err;
	types.bytes = malloc(types.size + 1);
	err = types.bytes ? target_read(t, types.start, types.bytes, types.size) : &error_no_memory;
	if (err && err->code == ERROR_FAULT) {
		types.size = 0;
		err = NULL;
	}
	if (err)
		type_data_release(&types);
	else
		*ret = types;
	return err;
}

void type_data_release(struct type_data *types)
{
	free(types->bytes);
	*types = (struct type_data){0};
}

/* NULL: not all of it is there. */
static const uint8_t *bytes_at(const struct type_data *types, uint64_t address, size_t size)
{
	uint64_t at = address - types->start;

	return at < types->size && size <= types->size - at ? types->bytes + at : NULL;
}

static uint64_t word_at(const uint8_t *bytes, size_t at)
{
	uint64_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

static uint32_t half_at(const uint8_t *bytes, size_t at)
{
	uint32_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

/* A name: a byte of flags, its length in one or two bytes, its bytes. */
static const char *name_at(const struct type_data *types, uint64_t address, size_t *ret_length)
{
	const uint8_t *head = bytes_at(types, address, 3);
	size_t length = head ? head[1] & 0x7f : 0, before = 2;

	if (head && head[1] & 0x80) {
		length |= (size_t)(head[2] & 0x7f) << 7;
		before = 3;
	}
	*ret_length = length;
	return head ? (const char *)bytes_at(types, address + before, length) : NULL;
}

static bool is_package(const struct type_data *types, const uint8_t *structure, const char *package)
{
	size_t length, n = strlen(package);
	uint64_t at = types->start + half_at(structure, STRUCT_PACKAGE);
	const char *name = name_at(types, at, &length);

	if (!name || length < n || memcmp(name + length - n, package, n) != 0)
		return false;
	return length == n || name[length - n - 1] == '/';
}

/* The structures of the package whose name is at this offset. */
static size_t find_named(const struct type_data *types, uint32_t name, const char *package,
			 uint64_t *ret)
{
	size_t found = 0;

	for (size_t i = 0; i + STRUCT_BYTES <= types->size; i += 8) {
		const uint8_t *type = types->bytes + i;

		if (half_at(type, TYPE_NAME) != name ||
		    (type[TYPE_KIND] & KIND_BITS) != KIND_STRUCT ||
		    !(type[TYPE_FLAGS] & FLAG_NAMED) || !is_package(types, type, package))
			continue;
		*ret = types->start + i;
		found++;
	}
	return found;
}

/* A type is called as the pointers to it are, without the "*", so there is one text for both. */
uint64_t type_data_structure(const struct type_data *types, const char *package, const char *name)
{
	char wanted[MAX_NAME];
	size_t n = strlen(name) + 1, found = 0, at = 0;
	uint64_t structure = 0;

	if (n + 1 > sizeof(wanted) || n > 127)
		return 0;
	wanted[0] = (char)n;
	wanted[1] = '*';
	memcpy(wanted + 2, name, n - 1);
	while (at < types->size) {
		const uint8_t *text = memmem(types->bytes + at, types->size - at, wanted, n + 1);

		if (!text)
			break;
		at = text - types->bytes + 1;
		/* The byte of flags is before it. */
		if (at > 1)
			found += find_named(types, at - 2, package, &structure);
	}
	return found == 1 ? structure : 0;
}

uint64_t type_data_pointer(const struct type_data *types, uint64_t structure)
{
	for (size_t i = 0; i + POINTER_BYTES <= types->size; i += 8) {
		const uint8_t *type = types->bytes + i;

		if ((type[TYPE_KIND] & KIND_BITS) == KIND_POINTER && word_at(type, 0) == 8 &&
		    word_at(type, POINTER_ELEMENT) == structure)
			return types->start + i;
	}
	return 0;
}

bool type_data_field(const struct type_data *types, uint64_t structure, const char *field,
		     uint32_t *ret_offset)
{
	const uint8_t *type = bytes_at(types, structure, STRUCT_BYTES);
	uint64_t count = type ? word_at(type, STRUCT_FIELD_COUNT) : 0, offset;
	size_t length;

	for (uint64_t i = 0; i < count && i < MAX_FIELDS; i++) {
		uint64_t at = word_at(type, STRUCT_FIELDS) + i * FIELD_BYTES;
		const uint8_t *f = bytes_at(types, at, FIELD_BYTES);
		const char *name = f ? name_at(types, word_at(f, FIELD_NAME), &length) : NULL;

		if (!name || length != strlen(field) || memcmp(name, field, length) != 0)
			continue;
		offset = word_at(f, FIELD_OFFSET) >> (types->minor <= LAST_SHIFTED);
		*ret_offset = (uint32_t)offset;
		return offset < word_at(type, 0);
	}
	return false;
}
