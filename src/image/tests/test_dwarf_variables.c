/* The variables of this very program, which has DWARF, against where they really are. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/unit_test.h"
#include "image/debug_sections.h"
#include "image/dwarf_variables.h"

struct pair {
	char *text;
	long length;
};

typedef struct pair pair_alias;

/* The facts that a function found out about itself. */
struct self {
	uintptr_t pc;
	char *cfa;
	void *number, *pair, *bytes, *inner;
};

extern char __executable_start[];
static struct self self;

#ifdef __clang__
#define AS_WRITTEN optnone
#else
#define AS_WRITTEN noclone, optimize("O0")
#endif

/* Not optimized, so that each variable has its place. */
__attribute__((noinline, AS_WRITTEN, no_sanitize("address", "undefined"))) static int
look_at_self(int number, volatile int *sum)
{
	pair_alias pair = {"text", 4};
	short bytes[10] = {1, 2};

	self = (struct self){.cfa = __builtin_dwarf_cfa(),
			     .number = &number,
			     .pair = &pair,
			     .bytes = &bytes};
	for (int i = 0; i < 3; i++) {
		double inner = i + number;

		self.inner = &inner;
	here:
		self.pc = (uintptr_t) && here;
		*sum += (int)inner + bytes[i] + (int)pair.length;
	}
	return number;
}

static struct elf_file *open_self(void)
{
	struct elf_file *elf;

	assert_null(elf_file_open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "self", &elf));
	return elf;
}

/* As the file has it: this program is position-independent. */
static uint64_t address_of_self(const struct elf_file *elf)
{
	const struct elf_segment *segments;
	volatile int sum = 0;

	look_at_self(5, &sum);
	assert_true(elf_file_segments(elf, &segments) > 0);
	return self.pc - (uintptr_t)__executable_start + segments[0].address;
}

static const struct variable *named(const struct variable *all, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(all[i].name, name))
			return &all[i];
	fail_msg("there is no variable %s", name);
	return NULL;
}

static void check_place(const struct variable *v, const void *address, uint64_t size)
{
	assert_false(v->in_register);
	assert_ptr_equal(self.cfa + v->place, address);
	assert_int_equal(v->size, size);
	assert_int_equal(v->from, 0);
}

static void variables_are_where_they_are(void **state)
{
	_cleanup_elf_file_ struct elf_file *elf = open_self();
	_cleanup_variables_ struct variables *variables = NULL;
	const struct variable *all, *v;
	size_t count;

	assert_null(variables_open(elf, &variables));
	if (!variables)
		skip();
	assert_null(variables_at(variables, address_of_self(elf), false, &all, &count));
	v = named(all, count, "number");
	check_place(v, self.number, sizeof(int));
	assert_true(v->is_argument);
	assert_int_equal(v->type->kind, GO_INT);
	assert_string_equal(v->type->name, "int");
	v = named(all, count, "inner");
	check_place(v, self.inner, sizeof(double));
	assert_false(v->is_argument);
	assert_int_equal(v->type->kind, GO_FLOAT);
	v = named(all, count, "bytes");
	check_place(v, self.bytes, 20);
	assert_int_equal(v->type->kind, GO_ARRAY);
	assert_int_equal(v->type->element->size, sizeof(short));
}

static void a_name_for_a_structure_is_that_structure(void **state)
{
	_cleanup_elf_file_ struct elf_file *elf = open_self();
	_cleanup_variables_ struct variables *variables = NULL;
	const struct variable *all, *v;
	size_t count;

	assert_null(variables_open(elf, &variables));
	if (!variables)
		skip();
	assert_null(variables_at(variables, address_of_self(elf), false, &all, &count));
	v = named(all, count, "pair");
	check_place(v, self.pair, sizeof(struct pair));
	assert_string_equal(v->type->name, "pair_alias");
	assert_int_equal(v->type->kind, GO_STRUCT);
	assert_int_equal(v->type->count, 2);
	assert_string_equal(v->type->members[1].name, "length");
	assert_int_equal(v->type->members[1].offset, 8);
	assert_int_equal(v->type->members[0].type->kind, GO_POINTER);
}

static void elsewhere_there_are_no_variables(void **state)
{
	_cleanup_elf_file_ struct elf_file *elf = open_self();
	_cleanup_variables_ struct variables *variables = NULL;
	const struct variable *all;
	size_t count;

	assert_null(variables_open(elf, &variables));
	if (!variables)
		skip();
	assert_null(variables_at(variables, 1, false, &all, &count));
	assert_int_equal(count, 0);
	assert_null(variables_at(variables, UINT64_MAX, false, &all, &count));
	assert_int_equal(count, 0);
}

static void lists_that_all_functions_share_are_looked_at_in_bounds(void **state)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	_cleanup_variables_ struct variables *variables = NULL;
	const struct variable *all;
	size_t count;

	assert_null(elf_file_open(open(SHARED_LIST, O_RDONLY | O_CLOEXEC), "shared", &elf));
	assert_null(variables_open(elf, &variables));
	assert_non_null(variables);
	assert_int_equal(variables_given_up(variables), 0);
	for (uint64_t pc = 0x1000; pc < 0x1100; pc++)
		assert_null(variables_at(variables, pc, false, &all, &count));
	assert_int_equal(count, 0);
	assert_int_equal(variables_given_up(variables), 0x100);
}

/* A copy of this program in memory, to be spoiled. */
static uint8_t *copy_self(int *ret_fd, size_t *ret_size)
{
	_cleanup_elf_file_ struct elf_file *elf = open_self();
	const uint8_t *whole = elf_file_whole(elf, ret_size);
	uint8_t *copy;

	*ret_fd = memfd_create("copy", MFD_CLOEXEC);
	assert_int_equal(ftruncate(*ret_fd, *ret_size), 0);
	copy = mmap(NULL, *ret_size, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
	assert_true(copy != MAP_FAILED);
	memcpy(copy, whole, *ret_size);
	return copy;
}

static void ask_spoiled(int fd, uint64_t address)
{
	_cleanup_variables_ struct variables *variables = NULL;
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	const struct variable *all;
	size_t count;
	struct error *err = elf_file_open(dup(fd), "spoiled", &elf);

	if (!err)
		err = variables_open(elf, &variables);
	if (error_dropped(err) || !variables)
		return;
	for (uint64_t at = address - 64; at < address + 64; at += 8)
		error_destroy(variables_at(variables, at, false, &all, &count));
}

static void broken_dwarf_gives_less_and_harms_nothing(void **state)
{
	static const char *const names[] = {".debug_info", ".debug_abbrev", ".debug_loclists"};
	_cleanup_elf_file_ struct elf_file *elf = open_self();
	uint64_t address = address_of_self(elf);
	const uint8_t *whole;
	uint8_t *copy;
	size_t size;
	int fd;

	whole = elf_file_whole(elf, &size);
	copy = copy_self(&fd, &size);
	srandom(1);
	for (int round = 0; round < 200; round++) {
		struct elf_section s;

		if (!elf_file_section(elf, names[round % 3], &s) || !s.bytes || !s.size)
			continue;
		for (int i = 0; i < 20; i++)
			copy[s.bytes - whole + random() % s.size] = random();
		ask_spoiled(fd, address);
		memcpy(copy + (s.bytes - whole), s.bytes, s.size);
	}
	munmap(copy, size);
	close(fd);
}

static size_t count_siblings(Dwarf *dwarf)
{
	Dwarf_Off at = 0, next;
	size_t header, n = 0;

	for (; !dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL); at = next) {
		Dwarf_Die unit, die;

		if (!dwarf_offdie(dwarf, at + header, &unit) || dwarf_child(&unit, &die))
			continue;
		do
			n += dwarf_hasattr(&die, DW_AT_sibling);
		while (!dwarf_siblingof(&die, &die));
	}
	return n;
}

static void entries_without_sibling_references_are_read(void **state)
{
	static const char *const names[] = {"info", "abbrev", "str", "line_str"};
	_cleanup_free_ uint8_t *bytes = NULL;
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct debug_section abbrev;
	Elf *original, *elf;
	Dwarf *dwarf;
	size_t size, at = 0;

	elf_version(EV_CURRENT);
	original = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	assert_null(debug_sections_build(original, names, 4, &bytes, &size));
	elf = elf_memory((char *)bytes, size);
	dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	if (!dwarf || !count_siblings(dwarf))
		skip();
	dwarf_end(dwarf);
	abbrev = debug_section_find(elf, "abbrev");
	while (at < abbrev.size)
		at += abbreviations_drop_siblings((uint8_t *)abbrev.data, abbrev.size, at);
	assert_int_equal(at, abbrev.size);
	dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	assert_int_equal(count_siblings(dwarf), 0);
	dwarf_end(dwarf);
	elf_end(elf);
	elf_end(original);
}

static void abbreviations_that_are_cut_short_end(void **state)
{
	/* code 1, tag, children; sibling in two bytes, form; then nothing */
	uint8_t bytes[] = {1, 0x34, 0, 0x81, 0x00, 0x13};
	uint8_t before = bytes[1];

	assert_true(abbreviations_drop_siblings(bytes, sizeof(bytes), 0) <= sizeof(bytes));
	assert_int_equal(bytes[1], before);
	assert_int_equal(bytes[3], 0x8f);
	assert_int_equal(abbreviations_drop_siblings(bytes, sizeof(bytes), 100), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_are_where_they_are),
		cmocka_unit_test(a_name_for_a_structure_is_that_structure),
		cmocka_unit_test(elsewhere_there_are_no_variables),
		cmocka_unit_test(lists_that_all_functions_share_are_looked_at_in_bounds),
		cmocka_unit_test(entries_without_sibling_references_are_read),
		cmocka_unit_test(abbreviations_that_are_cut_short_end),
		cmocka_unit_test(broken_dwarf_gives_less_and_harms_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
