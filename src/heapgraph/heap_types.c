#include "heapgraph/heap_types.h"

#include <string.h>

/* internal/abi.Type, in Go 1.17 to 1.27. */
enum { TYPE_SIZE = 0, TYPE_POINTER_BYTES = 8, TYPE_FLAGS = 20, TYPE_KIND = 23, TYPE_MASK = 32 };
#define TYPE_BYTES 48
/* Up to Go 1.23 a mask may be a program that makes it; later it is made when it is needed. */
#define KIND_IS_PROGRAM 64
#define FLAG_ON_DEMAND 16
#define FIRST_ON_DEMAND 24
#define MAX_TYPE_SIZE (1ull << 46)
#define MAX_MASK (1u << 20)    /* of one type: of 64 MB */
#define MAX_MASKS (256u << 20) /* of all */
#define MAX_TYPES (1u << 20)

static uint64_t word_at(const uint8_t *bytes, size_t at)
{
	uint64_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

/* Where the mask of the type is; 0: it is not there as such. */
static struct error *must_check find_mask(const struct heap_types *types, const uint8_t *bytes,
					  uint64_t *ret)
{
	uint64_t at = word_at(bytes, TYPE_MASK);

	*ret = 0;
	if (types->minor < FIRST_ON_DEMAND) {
		*ret = bytes[TYPE_KIND] & KIND_IS_PROGRAM ? 0 : at;
		return NULL;
	}
	if (!(bytes[TYPE_FLAGS] & FLAG_ON_DEMAND)) {
		*ret = at;
		return NULL;
	}
	return target_read_u64(types->t, at, ret);
}

static struct error *must_check read_mask(struct heap_types *types, const uint8_t *bytes,
					  struct heap_type *type)
{
	size_t size = (type->pointer_bytes / 8 + 7) / 8;
	uint64_t at;
	char *mask;
	struct error *err;

	if (size > MAX_MASK || types->mask_bytes + size > MAX_MASKS)
		return NULL;
	err = find_mask(types, bytes, &at);
	if (err || !at)
		return err;
	mask = arena_take(&types->memory, size + 8);
	if (!mask)
		return &error_no_memory;
	types->mask_bytes += size;
	err = target_read(types->t, at, mask, size);
	if (!err)
		type->mask = (const uint8_t *)mask;
	return err;
}

static struct error *must_check read_type(struct heap_types *types, uint64_t address,
					  struct heap_type **ret)
{
	uint8_t bytes[TYPE_BYTES];
	struct heap_type *type;
	struct error *err = target_read(types->t, address, bytes, sizeof(bytes));
	uint64_t size, pointers;

	*ret = NULL;
	if (err)
		return err;
	size = word_at(bytes, TYPE_SIZE);
	pointers = word_at(bytes, TYPE_POINTER_BYTES);
	if (!size || size > MAX_TYPE_SIZE || pointers > size || pointers % 8)
		return NULL;
	type = (struct heap_type *)(void *)arena_take(&types->memory, sizeof(*type));
	if (!type)
		return &error_no_memory;
	*type = (struct heap_type){.address = address, .size = size, .pointer_bytes = pointers};
	err = pointers ? read_mask(types, bytes, type) : NULL;
	if (err && err->code != ERROR_FAULT)
		return err;
	error_destroy(err);
	*ret = type;
	return NULL;
}

struct error *heap_types_get(struct heap_types *types, uint64_t address,
			     const struct heap_type **ret)
{
	const uint64_t *known = map_find(&types->by_address, address);
	struct heap_type *type = NULL;
	struct error *err = NULL;
	uint64_t *place;

	*ret = known ? (const struct heap_type *)(uintptr_t)*known : NULL;
	if (known || !address || address % 8 || types->by_address.count >= MAX_TYPES)
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

void heap_types_release(struct heap_types *types)
{
	map_release(&types->by_address);
	arena_release(&types->memory);
}
