/* The types of a program as its runtime keeps them, in a piece of memory: each word of it is taken
 * for the address of a type. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "retained/slot_types.h"

#define BASE 0x500000ull
#define MODULE 0u
#define TYPES 2048u
#define SIZE 8192u

/* As a type, and as an itab. */
static void ask(struct runtime_types *types, struct type_table *table, size_t size)
{
	const struct slot_types slots = {.t = types->t, .types = types, .table = table};

	for (uint64_t at = BASE + TYPES; at < BASE + size; at += 8) {
		const struct runtime_type *type, *part;
		uint64_t offset, of_itab;
		uint32_t id;

		fuzz_require(!runtime_types_of_itab(types, at, &of_itab));
		fuzz_require(!runtime_types_get(types, at, &type));
		if (!type)
			continue;
		fuzz_require(type->address == at && type->pointer_bytes <= type->size);
		fuzz_require(type->kind != KIND_SLICE || type->size == 24);
		fuzz_require(type->kind != KIND_INTERFACE || type->size == 16);
		for (uint64_t in = 0; in < 256; in += 8) {
			fuzz_require(!runtime_types_part(types, type, in, &part, &offset));
			fuzz_require(!part || offset < part->size);
			fuzz_require(!slot_type_by_runtime(&slots, type, in, BASE + in, &id));
			fuzz_require(id < table->count || id == TYPE_UNKNOWN);
		}
		fuzz_accepted += type->name && type->field_count;
	}
}

static void name_all(struct runtime_types *types, const struct type_table *table)
{
	static const struct pclntab functions;

	for (uint32_t i = 0; i < table->count; i++) {
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		fuzz_require(!type_table_name(table, types, &functions, i, &name));
		fuzz_require(name.length > 0 && name.length < 4096);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int minors[] = {17, 27};
	_cleanup_target_ struct target *t = NULL;
	struct target_range range = {BASE, size, (void *)data};
	int minor = minors[size ? data[size - 1] % 2 : 0];
	struct golayout lay = {.minor = minor};
	struct image img = {.machine = MACHINE_AMD64, .moduledata = BASE + MODULE};
	struct type_table table = {0};
	struct runtime_types types;

	if (size < TYPES + 256 || size > SIZE)
		return 0;
	lay.n = *golayout_table(minor, 99);
	fuzz_require(!target_open_memory(&range, 1, &t));
	fuzz_require(!runtime_types_open(t, &img, &lay, &types));
	ask(&types, &table, size);
	name_all(&types, &table);
	runtime_types_release(&types);
	type_table_release(&table);
	return 0;
}

static void put(uint8_t *bytes, size_t at, uint64_t value, size_t size)
{
	memcpy(bytes + at, &value, size);
}

/* A name at `at` of the piece: flags, length, bytes. */
static void put_name(uint8_t *bytes, size_t at, const char *name)
{
	bytes[at + 1] = (uint8_t)strlen(name);
	memcpy(bytes + at + 2, name, strlen(name));
}

static void put_type(uint8_t *bytes, size_t at, uint64_t size, uint8_t kind, uint32_t name)
{
	put(bytes, at, size, 8);
	put(bytes, at + 8, size, 8);
	bytes[at + 20] = 2; /* the name has a star too much */
	bytes[at + 23] = kind;
	put(bytes, at + 40, name, 4);
}

static void put_field(uint8_t *bytes, size_t at, uint64_t name, uint64_t type, uint64_t offset)
{
	put(bytes, at, BASE + name, 8);
	put(bytes, at + 8, BASE + type, 8);
	put(bytes, at + 16, offset, 8);
}

void fuzz_seeds(fuzz_emit *emit, void *arg)
{
	enum {
		NAME = TYPES,
		FIELD = TYPES + 64,
		NODE = TYPES + 128,
		POINTER = TYPES + 256,
		ARRAY = TYPES + 384,
		MAP = TYPES + 512,
		CELL = TYPES + 640,
		ITAB = TYPES + 768,
		FIELDS = TYPES + 896,
	};

	for (int which = 0; which < 2; which++) {
		const struct golayout_numbers *n = golayout_table(which ? 27 : 17, 99);
		_cleanup_free_ uint8_t *seed = calloc(1, SIZE);
		int shift = !which;

		fuzz_require(seed && n);
		put(seed, MODULE + (size_t)n->moduledata_types, BASE + TYPES, 8);
		put(seed, MODULE + (size_t)n->moduledata_etypes, BASE + SIZE, 8);
		put_name(seed, NAME + 1, "*main.Node");
		put_name(seed, FIELD, "next");
		put_type(seed, NODE, 40, KIND_STRUCT, 1);
		put(seed, NODE + 56, BASE + FIELDS, 8);
		put(seed, NODE + 64, 3, 8);
		put_field(seed, FIELDS, FIELD, POINTER, 0);
		put_field(seed, FIELDS + 24, FIELD, ARRAY, 8ull << shift);
		put_field(seed, FIELDS + 48, FIELD, CELL, 24ull << shift);
		put_type(seed, POINTER, 8, KIND_POINTER, 1);
		put(seed, POINTER + 48, BASE + NODE, 8);
		put_type(seed, ARRAY, 16, KIND_ARRAY, 1);
		put(seed, ARRAY + 48, BASE + MAP, 8);
		put(seed, ARRAY + 64, 2, 8);
		put_type(seed, MAP, 8, KIND_MAP, 1);
		put(seed, MAP + 64, BASE + NODE, 8);
		put_type(seed, CELL, 16, KIND_INTERFACE, 1);
		put(seed, CELL + 64, 1, 8);
		put(seed, ITAB, BASE + CELL, 8);
		put(seed, ITAB + 8, BASE + NODE, 8);
		seed[SIZE - 1] = (uint8_t)which;
		emit(arg, seed, SIZE);
	}
}
