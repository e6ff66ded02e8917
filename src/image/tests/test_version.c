#include "image/version.h"

#include "base/cleanup.h"
#include "image/tests/fake_program.h"

#define ADDRESS 0x400000

/* A Go string's header and its text behind it. */
struct text {
	uint64_t header[2];
	char bytes[16];
};

static const uint8_t nothing[8];
static const struct fake_section go_sections[] = {
	{".note.go.buildid", SHF_ALLOC, nothing, sizeof(nothing)},
	{".gopclntab", SHF_ALLOC, nothing, sizeof(nothing)},
};

static void a_file_without_sections_of_go_is_no_go_program(void **state)
{
	struct image img = {.machine = MACHINE_AMD64};
	_cleanup_elf_file_ struct elf_file *elf =
		fake_elf(EM_X86_64, NULL, 0, nothing, sizeof(nothing), ADDRESS);
	_cleanup_error_ struct error *err = NULL;

	img.elf = elf;
	assert_false(version_is_go(elf));
	err = version_recover(&img);
	assert_non_null(err);
	assert_int_equal(err->code, ERROR_NOT_GO);
}

static void a_go_program_that_tells_nothing_has_an_empty_version(void **state)
{
	struct image img = {.machine = MACHINE_AMD64};
	_cleanup_elf_file_ struct elf_file *elf =
		fake_elf(EM_X86_64, go_sections, ARRAY_SIZE(go_sections), nothing, sizeof(nothing),
			 ADDRESS);

	img.elf = elf;
	assert_true(version_is_go(elf));
	assert_null(version_recover(&img));
	assert_string_equal(img.info.version, "");
	assert_int_equal(img.info.minor, -1);
	buildinfo_release(&img.info);
}

static char *string_of(uint64_t pointer, uint64_t size)
{
	struct text text = {{pointer, size}, "go1.22.5 and on"};
	_cleanup_elf_file_ struct elf_file *elf =
		fake_elf(EM_X86_64, NULL, 0, &text, sizeof(text), ADDRESS);

	return buildinfo_string(elf, ADDRESS);
}

static void a_go_string_is_read_as_long_as_it_is(void **state)
{
	_cleanup_free_ char *text = string_of(ADDRESS + 16, 8);

	assert_string_equal(text, "go1.22.5");
}

static void a_go_string_outside_of_the_file_is_none(void **state)
{
	assert_null(string_of(ADDRESS + 16, 17));
	assert_null(string_of(ADDRESS + 16, UINT64_MAX));
	assert_null(string_of(ADDRESS + sizeof(struct text), 1));
	assert_null(string_of(UINT64_MAX - 2, 8));
	assert_null(string_of(0, 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_without_sections_of_go_is_no_go_program),
		cmocka_unit_test(a_go_program_that_tells_nothing_has_an_empty_version),
		cmocka_unit_test(a_go_string_is_read_as_long_as_it_is),
		cmocka_unit_test(a_go_string_outside_of_the_file_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
