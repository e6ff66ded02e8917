#include "image/elf_bounds.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/unit_test.h"

#define SIZE (1u << 20)

/* A file of 1 MB with room for headers; it has one segment and no section. */
static struct {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2000];
	Elf64_Shdr sections[100];
	uint8_t rest[SIZE];
} file;

static int make(void **state)
{
	memset(&file, 0, sizeof(file));
	file.header = (Elf64_Ehdr){
		.e_ident = ELFMAG "\2\1\1",
		.e_machine = EM_X86_64,
		.e_phoff = offsetof(typeof(file), segments),
		.e_phnum = 1,
		.e_shoff = offsetof(typeof(file), sections),
		.e_shnum = 1,
	};
	file.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = SIZE};
	return 0;
}

static void assert_refused(const char *why)
{
	_cleanup_error_ struct error *err = elf_bounds_check((uint8_t *)&file, sizeof(file), "app");

	assert_non_null(err);
	if (!strstr(err->message, why))
		fail_msg("\"%s\" does not say \"%s\"", err->message, why);
}

static void an_ordinary_file_is_accepted(void **state)
{
	assert_null(elf_bounds_check((uint8_t *)&file, sizeof(file), "app"));
}

static void sections_by_extended_numbering_are_refused(void **state)
{
	file.header.e_shnum = 0;
	file.sections[0].sh_size = 40000000;
	assert_refused("more than 65,279 sections");
}

static void segments_that_overlap_are_refused(void **state)
{
	file.header.e_phnum = 3;
	for (int i = 0; i < 3; i++)
		file.segments[i] = (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = sizeof(file)};
	assert_refused("its segments overlap");
	file.segments[0].p_filesz = UINT64_MAX;
	assert_refused("its segments overlap");
}

static void sections_that_overlap_are_refused(void **state)
{
	file.header.e_shnum = 3;
	for (int i = 0; i < 3; i++)
		file.sections[i] = (Elf64_Shdr){.sh_type = SHT_SYMTAB, .sh_size = sizeof(file)};
	assert_refused("its sections overlap");
}

static void excess_segments_are_refused(void **state)
{
	file.header.e_phnum = 1171;
	assert_refused("more than 1,170 segments");
	file.header.e_phnum = PN_XNUM;
	assert_refused("more than 1,170 segments");
}

static void long_notes_are_refused(void **state)
{
	file.segments[0] = (Elf64_Phdr){.p_type = PT_NOTE, .p_filesz = SIZE + 1};
	assert_refused("more than 1 MB of notes");
}

static void program_headers_outside_of_the_file_are_refused(void **state)
{
	file.header.e_phoff = UINT64_MAX - 8;
	assert_refused("lie outside the file");
}

static int make_holes(size_t stored, size_t size)
{
	static uint8_t bytes[SIZE];
	int fd = memfd_create("file", 0);

	assert_true(fd >= 0 && stored <= SIZE);
	memset(bytes, 1, sizeof(bytes));
	assert_int_equal(write(fd, bytes, stored), stored);
	assert_int_equal(ftruncate(fd, size), 0);
	return fd;
}

static void a_file_of_holes_is_refused(void **state)
{
	int fd = make_holes(8192, 2ull << 30);
	_cleanup_error_ struct error *err = elf_bounds_check_holes(fd, "app");

	close(fd);
	assert_non_null(err);
	assert_non_null(strstr(err->message, "holes"));
}

static void a_few_holes_are_accepted(void **state)
{
	int fd = make_holes(SIZE, 2 * SIZE);

	assert_null(elf_bounds_check_holes(fd, "app"));
	close(fd);
	fd = make_holes(4096, SIZE);
	assert_null(elf_bounds_check_holes(fd, "app"));
	close(fd);
}

static void a_name_without_an_end_is_none(void **state)
{
	Elf *elf;

	elf_version(EV_CURRENT);
	file.header.e_shnum = 3;
	for (int i = 1; i < 3; i++)
		file.sections[i] = (Elf64_Shdr){
			.sh_type = SHT_STRTAB,
			.sh_offset = offsetof(typeof(file), rest),
			.sh_size = 10000,
		};
	file.sections[2].sh_flags = SHF_COMPRESSED;
	memset(file.rest, 'x', SIZE);
	file.rest[5] = '\0';
	elf = elf_memory((char *)&file, sizeof(file));
	assert_string_equal(elf_bounds_string(elf, 1, 2), "xxx");
	assert_null(elf_bounds_string(elf, 1, 6));
	assert_null(elf_bounds_string(elf, 1, 9999));
	assert_null(elf_bounds_string(elf, 1, 10000));
	assert_null(elf_bounds_string(elf, 2, 2));
	assert_null(elf_bounds_string(elf, 7, 2));
	elf_end(elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_ordinary_file_is_accepted, make),
		cmocka_unit_test_setup(sections_by_extended_numbering_are_refused, make),
		cmocka_unit_test_setup(segments_that_overlap_are_refused, make),
		cmocka_unit_test_setup(sections_that_overlap_are_refused, make),
		cmocka_unit_test_setup(excess_segments_are_refused, make),
		cmocka_unit_test_setup(long_notes_are_refused, make),
		cmocka_unit_test_setup(program_headers_outside_of_the_file_are_refused, make),
		cmocka_unit_test_setup(a_name_without_an_end_is_none, make),
		cmocka_unit_test(a_file_of_holes_is_refused),
		cmocka_unit_test(a_few_holes_are_accepted),
	};

	return cmocka_run_group_tests_name("elf_bounds", tests, NULL, NULL);
}
