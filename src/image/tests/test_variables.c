/* The variables of this very program, which has DWARF, against where they really are. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/unit_test.h"
#include "image/variables.h"

struct pair {
	char *text;
	long length;
};

typedef struct pair pair_alias;

/* What a function found out about itself. */
struct self {
	uintptr_t pc;
	char *cfa;
	void *number, *pair, *bytes, *inner;
};

extern char __executable_start[];
static struct self self;

/* Not optimized, so that each variable has its place. */
__attribute__((noinline, noclone, optimize("O0"), no_sanitize("address", "undefined"))) static int
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_are_where_they_are),
		cmocka_unit_test(a_name_for_a_structure_is_that_structure),
		cmocka_unit_test(elsewhere_there_are_no_variables),
		cmocka_unit_test(broken_dwarf_gives_less_and_harms_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
