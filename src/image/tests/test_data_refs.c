#include "image/data_refs.h"
#include "image/tests/fake_program.h"

#define TEXT 0x400000
#define FUNCTION_SIZE 64

/* main.second: mov rax,[rip+0x100]; call; lea rcx,[rip+0x200]; lock cmpxchg [rip+0x10],rdx;
 * mov rax,[rbx+8]; cmpb [rip-4],0; ret */
static const uint8_t amd64_code[] = {
	0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00, 0xe8, 0x00, 0x00, 0x00, 0x00, 0x48, 0x8d,
	0x0d, 0x00, 0x02, 0x00, 0x00, 0xf0, 0x48, 0x0f, 0xb1, 0x15, 0x10, 0x00, 0x00, 0x00,
	0x48, 0x8b, 0x43, 0x08, 0x80, 0x3d, 0xfc, 0xff, 0xff, 0xff, 0x00, 0xc3,
};

static const uint32_t arm64_code[] = {
	0xb0000020, /* adrp x0, page of main.second + 0x5000 */
	0x91004000, /* add x0, x0, #16: 0x405010 */
	0xf9400401, /* ldr x1, [x0, #8]: x0 holds no page any more */
	0x00000000, /* data */
	0xb000003b, /* adrp x27 */
	0xf9401762, /* ldr x2, [x27, #40]: 0x405028 */
	0xf9001b62, /* str x2, [x27, #48]: 0x405030 */
	0xaa0203fb, /* mov x27, x2 */
	0xf9401762, /* ldr x2, [x27, #40] */
	0xb000003d, /* adrp x29 */
	0x914007a3, /* add x3, x29, #1, lsl #12: 0x406000 */
	0xd65f03c0, /* ret */
};

/* Compares the references of main.second, which has this code, as offsets from TEXT. */
static void assert_refs(int machine, const void *code, size_t code_size, const uint64_t *expected,
			size_t count)
{
	static const char *const names[] = {"main.first", "main.second", "main.outside"};
	uint8_t text[2 * FUNCTION_SIZE] = {0};
	struct fake_functions functions = {0};
	struct image img = {
		.machine = machine == EM_X86_64 ? MACHINE_AMD64 : MACHINE_ARM64,
		.bias = 0x10000,
		.functions = fake_pclntab(&functions, names, 3, TEXT + 0x10000, FUNCTION_SIZE),
	};
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	_cleanup_data_refs_ struct data_refs refs = {0}, none = {0};
	_cleanup_error_ struct error *err = NULL;

	memcpy(text + FUNCTION_SIZE, code, code_size);
	img.elf = elf = fake_elf(machine, NULL, 0, text, sizeof(text), TEXT);
	assert_null(data_refs_of(&img, "main.second", &refs));
	assert_int_equal(refs.count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(refs.items[i], img.bias + TEXT + expected[i]);
	err = data_refs_of(&img, "main.third", &none);
	assert_int_equal(err->code, ERROR_FAILED);
	error_destroy(err);
	err = data_refs_of(&img, "main.outside", &none);
	assert_int_equal(err->code, ERROR_CORRUPT);
}

static void amd64_operands_relative_to_the_pc_are_found_in_order(void **state)
{
	static const uint64_t expected[] = {64 + 7 + 0x100, 64 + 19 + 0x200, 64 + 28 + 0x10,
					    64 + 39 - 4};

	assert_refs(EM_X86_64, amd64_code, sizeof(amd64_code), expected, ARRAY_SIZE(expected));
}

static void arm64_pages_are_joined_with_what_is_added_to_them(void **state)
{
	static const uint64_t expected[] = {0x5010, 0x5028, 0x5030, 0x6000};

	assert_refs(EM_AARCH64, arm64_code, sizeof(arm64_code), expected, ARRAY_SIZE(expected));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(amd64_operands_relative_to_the_pc_are_found_in_order),
		cmocka_unit_test(arm64_pages_are_joined_with_what_is_added_to_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
