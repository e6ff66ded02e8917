#include <dwarf.h>
#include <endian.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "image/dwarf_types.h"
#include "image/tests/fake_program.h"

/* Far more than is unpacked at a time. */
#define FILLER_ENTRIES 100000

enum { UNIT = 1, STRUCTURE, MEMBER, TYPEDEF, CONSTANT, BASE };

/* clang-format off */
static const uint8_t abbrev[] = {
	UNIT,      DW_TAG_compile_unit,   1, DW_AT_name, DW_FORM_string, 0, 0,
	STRUCTURE, DW_TAG_structure_type, 1, DW_AT_name, DW_FORM_string,
		DW_AT_byte_size, DW_FORM_udata, 0, 0,
	MEMBER,    DW_TAG_member,         0, DW_AT_name, DW_FORM_string,
		DW_AT_data_member_location, DW_FORM_udata, DW_AT_type, DW_FORM_ref_addr, 0, 0,
	TYPEDEF,   DW_TAG_typedef,        0, DW_AT_name, DW_FORM_string, DW_AT_type, DW_FORM_ref_addr, 0, 0,
	CONSTANT,  DW_TAG_constant,       0, DW_AT_name, DW_FORM_string, DW_AT_const_value, DW_FORM_sdata, 0, 0,
	BASE,      DW_TAG_base_type,      0, DW_AT_name, DW_FORM_string, DW_AT_byte_size, DW_FORM_data1, 0, 0,
	0,
};
/* clang-format on */

/* .debug_info while it is written. */
struct info {
	uint8_t *bytes;
	size_t size;
	size_t capacity;
};

static void info_release(struct info *in)
{
	free(in->bytes);
}
#define _cleanup_info_ __attribute__((cleanup(info_release)))

static size_t put(struct info *in, const void *bytes, size_t n)
{
	assert_true(array_reserve(&in->bytes, &in->capacity, in->size + n));
	memcpy(in->bytes + in->size, bytes, n);
	in->size += n;
	return in->size - n;
}

static size_t put_entry(struct info *in, uint8_t code, const char *name)
{
	size_t at = put(in, &code, 1);

	put(in, name, strlen(name) + 1);
	return at;
}

static void put_small(struct info *in, uint8_t value)
{
	put(in, &value, 1);
}

static size_t put_ref(struct info *in, uint32_t target)
{
	return put(in, &target, 4);
}

static size_t unit_begin(struct info *in, const char *name)
{
	static const uint8_t header[] = {0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8}; /* DWARF 4 */
	size_t at = put(in, header, sizeof(header));

	put_entry(in, UNIT, name);
	return at;
}

static void unit_end(struct info *in, size_t unit)
{
	uint32_t length;

	put_small(in, 0);
	length = in->size - unit - 4;
	memcpy(in->bytes + unit, &length, 4);
}

static void put_member(struct info *in, const char *name, uint8_t offset, uint32_t type)
{
	put_entry(in, MEMBER, name);
	put_small(in, offset);
	put_ref(in, type);
}

static void put_filler(struct info *in)
{
	for (int i = 0; i < FILLER_ENTRIES; i++) {
		put_entry(in, BASE, "runtime.filler");
		put_small(in, 1);
	}
}

/*
 * As the Go linker writes it: all types in one unit, typedefs of the same name as the structures,
 * constants in the unit of their package.
 */
static struct info go_info(void)
{
	struct info in = {0};
	size_t unit = unit_begin(&in, "runtime"), base, alias, gobuf;
	uint32_t target;

	base = put_entry(&in, BASE, "uintptr");
	put_small(&in, 8);
	put_entry(&in, TYPEDEF, "runtime.g");
	put_ref(&in, base);
	alias = put_entry(&in, TYPEDEF, "runtime.gobuf");
	target = put_ref(&in, 0);
	put_entry(&in, STRUCTURE, "runtime.g");
	put_small(&in, 64);
	put_member(&in, "sched", 8, alias);
	put_member(&in, "m", 48, base);
	put_small(&in, 0);
	put_filler(&in);
	gobuf = put_entry(&in, STRUCTURE, "runtime.gobuf");
	memcpy(in.bytes + target, &(uint32_t){gobuf}, 4);
	put_small(&in, 32);
	put_member(&in, "sp", 0, base);
	put_member(&in, "pc", 9, base);
	put_small(&in, 0);
	unit_end(&in, unit);
	unit = unit_begin(&in, "main");
	put_filler(&in);
	put_entry(&in, STRUCTURE, "runtime.late");
	put_small(&in, 16);
	put_small(&in, 0);
	unit_end(&in, unit);
	unit = unit_begin(&in, "internal/abi");
	put_entry(&in, CONSTANT, "internal/abi.FuncIDWrapper");
	put_small(&in, 23);
	unit_end(&in, unit);
	return in;
}

static struct elf_file *dwarf_elf(const char *name, uint64_t flags, const void *bytes, size_t size)
{
	struct fake_section sections[] = {
		{".debug_abbrev", 0, abbrev, sizeof(abbrev)},
		{name, flags, bytes, size},
	};

	return fake_elf(EM_X86_64, sections, ARRAY_SIZE(sections), "", 0, 0);
}

/* The bytes of a compressed section: this header, then what zlib makes. */
static uint8_t *compress_info(const struct info *in, const void *header, size_t header_size,
			      size_t *ret_size)
{
	uLongf size = compressBound(in->size);
	uint8_t *bytes = malloc(header_size + size);

	assert_non_null(bytes);
	memcpy(bytes, header, header_size);
	assert_int_equal(compress(bytes + header_size, &size, in->bytes, in->size), Z_OK);
	*ret_size = header_size + size;
	return bytes;
}

static struct elf_file *compressed_elf(const struct info *in)
{
	Elf64_Chdr header = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = in->size, .ch_addralign = 1};
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t size;

	bytes = compress_info(in, &header, sizeof(header), &size);
	return dwarf_elf(".debug_info", SHF_COMPRESSED, bytes, size);
}

static int64_t ask(const struct elf_file *elf, const char *type, const char *path, bool constant)
{
	struct dwarf_query q = {.type = type, .path = path, .is_constant = constant};
	bool has_dwarf;

	assert_null(dwarf_answer(elf, &q, 1, &has_dwarf));
	assert_true(has_dwarf);
	assert_true(q.has_type || !q.found);
	return q.found ? q.value : q.has_type ? -1 : -2;
}

static void assert_answers(const struct elf_file *elf)
{
	assert_int_equal(ask(elf, "runtime.g", "", false), 64);
	assert_int_equal(ask(elf, "runtime.g", "m", false), 48);
	assert_int_equal(ask(elf, "runtime.g", "sched.pc", false), 17);
	assert_int_equal(ask(elf, "runtime.gobuf", "sp", false), 0);
	assert_int_equal(ask(elf, "runtime.g", "gone|m", false), 48);
	assert_int_equal(ask(elf, "internal/abi.FuncIDWrapper", "", true), 23);
	assert_int_equal(ask(elf, "runtime.old|internal/abi.FuncIDWrapper", "", true), 23);
	assert_int_equal(ask(elf, "runtime.g", "gone", false), -1);
	assert_int_equal(ask(elf, "runtime.g", "m.sp", false), -1);
	assert_int_equal(ask(elf, "runtime.g", "sched.", false), -1);
	assert_int_equal(ask(elf, "runtime.gone", "m", false), -2);
	assert_int_equal(ask(elf, "runtime.go", "", false), -2);
	assert_int_equal(ask(elf, "runtime.g", "", true), -2);
}

static void fields_are_found_through_typedefs_and_by_alternatives(void **state)
{
	_cleanup_info_ struct info in = go_info();
	_cleanup_elf_file_ struct elf_file *elf = dwarf_elf(".debug_info", 0, in.bytes, in.size);

	assert_answers(elf);
}

static void compressed_sections_answer_the_same(void **state)
{
	_cleanup_info_ struct info in = go_info();
	_cleanup_elf_file_ struct elf_file *elf = compressed_elf(&in);

	assert_answers(elf);
}

/* As Go wrote it until 1.18. */
static void sections_of_the_old_compressed_kind_answer_the_same(void **state)
{
	_cleanup_info_ struct info in = go_info();
	uint64_t size = htobe64(in.size);
	uint8_t header[12] = "ZLIB";
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t n;

	memcpy(header + 4, &size, sizeof(size));
	bytes = compress_info(&in, header, sizeof(header), &n);
	elf = dwarf_elf(".zdebug_info", 0, bytes, n);
	assert_answers(elf);
}

/* All types are in one unit: behind the one that has the first, none is looked for. */
static void the_search_ends_with_the_unit_of_types(void **state)
{
	_cleanup_info_ struct info in = go_info();
	_cleanup_elf_file_ struct elf_file *elf = compressed_elf(&in);
	struct dwarf_query q[] = {{.type = "runtime.g", .path = ""},
				  {.type = "runtime.late", .path = ""}};
	bool has_dwarf;

	assert_null(dwarf_answer(elf, q, ARRAY_SIZE(q), &has_dwarf));
	assert_int_equal(q[0].value, 64);
	assert_false(q[1].has_type);
	assert_int_equal(ask(elf, "runtime.late", "", false), 16);
}

static void a_program_without_dwarf_has_none(void **state)
{
	struct fake_section abbrev_alone = {".debug_abbrev", 0, abbrev, sizeof(abbrev)};
	_cleanup_elf_file_ struct elf_file *elf = fake_elf(EM_X86_64, &abbrev_alone, 1, "", 0, 0);
	struct dwarf_query q = {.type = "runtime.g", .path = "", .found = true};
	bool has_dwarf = true;

	assert_null(dwarf_answer(elf, &q, 1, &has_dwarf));
	assert_false(has_dwarf);
	assert_false(q.found);
}

static void data_that_cannot_be_unpacked_is_an_error(void **state)
{
	_cleanup_info_ struct info in = go_info();
	Elf64_Chdr header = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = in.size, .ch_addralign = 1};
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	_cleanup_error_ struct error *err = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct dwarf_query q = {.type = "runtime.gone", .path = ""};
	bool has_dwarf;
	size_t size;

	bytes = compress_info(&in, &header, sizeof(header), &size);
	elf = dwarf_elf(".debug_info", SHF_COMPRESSED, bytes, size / 2);
	err = dwarf_answer(elf, &q, 1, &has_dwarf);
	assert_non_null(err);
	assert_int_equal(err->code, ERROR_CORRUPT);
}

/* "runtime.g" with a member whose type is a typedef of itself. */
static void types_that_go_in_circles_end(void **state)
{
	_cleanup_info_ struct info in = {0};
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	size_t unit = unit_begin(&in, "runtime");
	size_t alias = put_entry(&in, TYPEDEF, "runtime.loop");

	put_ref(&in, alias);
	put_entry(&in, STRUCTURE, "runtime.g");
	put_small(&in, 64);
	put_member(&in, "sched", 8, alias);
	put_small(&in, 0);
	unit_end(&in, unit);
	elf = dwarf_elf(".debug_info", 0, in.bytes, in.size);
	assert_int_equal(ask(elf, "runtime.g", "sched.sp", false), -1);
}

/* Whatever the bytes are, there is an answer, and no read outside of them. */
static void broken_bytes_do_no_harm(void **state)
{
	_cleanup_info_ struct info in = go_info();
	size_t head = 200, size = 400;

	srand(1);
	for (int round = 0; round < 2000; round++) {
		uint8_t bytes[400];
		struct dwarf_query q[] = {{.type = "runtime.g", .path = "sched.pc"},
					  {.type = "runtime.gobuf", .path = "sp"}};
		_cleanup_elf_file_ struct elf_file *elf = NULL;
		bool has_dwarf;

		memcpy(bytes, in.bytes, head);
		memcpy(bytes + head, in.bytes + in.size - (size - head), size - head);
		for (int i = 0; i < 1 + round % 8; i++)
			bytes[rand() % size] = rand();
		elf = dwarf_elf(".debug_info", 0, bytes, 1 + rand() % size);
		error_destroy(dwarf_answer(elf, q, ARRAY_SIZE(q), &has_dwarf));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_found_through_typedefs_and_by_alternatives),
		cmocka_unit_test(compressed_sections_answer_the_same),
		cmocka_unit_test(sections_of_the_old_compressed_kind_answer_the_same),
		cmocka_unit_test(the_search_ends_with_the_unit_of_types),
		cmocka_unit_test(a_program_without_dwarf_has_none),
		cmocka_unit_test(data_that_cannot_be_unpacked_is_an_error),
		cmocka_unit_test(types_that_go_in_circles_end),
		cmocka_unit_test(broken_bytes_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
