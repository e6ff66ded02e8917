#include "image/amd64.h"

#include <string.h>

#include "base/array.h"
#include "base/unit_test.h"

struct known {
	const char *text;
	size_t length;
	const uint8_t code[16];
	enum modrm_register written;
};

#define NONE MODRM_NONE

static const struct known known[] = {
	{"ret", 1, {0xc3}, NONE},
	{"pop rbp", 1, {0x5d}, MODRM_RBP},
	{"push rbp", 1, {0x55}, NONE},
	{"mov rbp, rsp", 3, {0x48, 0x89, 0xe5}, MODRM_RBP},
	{"mov [rsp+16], rbp", 5, {0x48, 0x89, 0x6c, 0x24, 0x10}, NONE},
	{"lea rbp, [rsp+16]", 5, {0x48, 0x8d, 0x6c, 0x24, 0x10}, MODRM_RBP},
	{"mov r13, [rsp]", 4, {0x4c, 0x8b, 0x2c, 0x24}, 13},
	{"mov rbp, [disp32]", 8, {0x48, 0x8b, 0x2c, 0x25, 0xf8, 0xff, 0xff, 0xff}, MODRM_RBP},
	{"mov rax, imm64", 10, {0x48, 0xb8}, 0},
	{"mov ebp, imm32", 5, {0xbd}, MODRM_RBP},
	{"mov ax, imm16", 4, {0x66, 0xb8}, 0},
	{"movabs al, [moffs]", 9, {0xa0}, NONE},
	{"test byte [rip+1], 1", 7, {0xf6, 0x05, 1, 0, 0, 0, 1}, NONE},
	{"not rbp", 3, {0x48, 0xf7, 0xd5}, MODRM_RBP},
	{"test ebp, imm32", 6, {0xf7, 0xc5}, NONE},
	{"cmp rbp, imm8", 4, {0x48, 0x83, 0xfd, 1}, NONE},
	{"add rbp, imm8", 4, {0x48, 0x83, 0xc5, 1}, MODRM_RBP},
	{"cmp word [rax], imm16", 5, {0x66, 0x81, 0x38}, NONE},
	{"lock cmpxchg [rip], rdx", 9, {0xf0, 0x48, 0x0f, 0xb1, 0x15}, NONE},
	{"je rel32", 6, {0x0f, 0x84}, NONE},
	{"call rel32 with a prefix", 6, {0x66, 0xe8}, NONE},
	{"enter", 4, {0xc8}, NONE},
	{"bswap ebp", 2, {0x0f, 0xcd}, MODRM_RBP},
	{"movzx ebp, byte [r12]", 6, {0x41, 0x0f, 0xb6, 0x6c, 0x24, 0x08}, MODRM_RBP},
	{"movq rbp, xmm1", 5, {0x66, 0x48, 0x0f, 0x7e, 0xcd}, MODRM_RBP},
	{"movq xmm5, xmm1", 4, {0xf3, 0x0f, 0x7e, 0xe9}, NONE},
	{"palignr mm6, mm6, 8", 6, {0x45, 0x0f, 0x3a, 0x0f, 0xf6, 8}, NONE},
	{"vzeroupper", 3, {0xc5, 0xf8, 0x77}, NONE},
	{"vpshufb", 5, {0xc4, 0xe2, 0x7d, 0x00, 0xc1}, NONE},
	{"rorx ebp, eax, 6", 6, {0xc4, 0xe3, 0x7b, 0xf0, 0xe8, 6}, MODRM_RBP},
	{"vpermi2b zmm, [rip]", 10, {0x62, 0xf2, 0xfd, 0x48, 0x75, 0x05}, NONE},
	{"vgf2p8affineqb zmm, 0", 7, {0x62, 0xf3, 0xfd, 0x48, 0xce, 0xc1, 0}, NONE},
};

static void lengths_and_written_registers_are_those_of_the_manual(void **state)
{
	struct amd64_insn insn;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (!amd64_decode(known[i].code, sizeof(known[i].code), &insn))
			fail_msg("%s is not decoded", known[i].text);
		if (insn.length != known[i].length)
			fail_msg("%s has %zu bytes", known[i].text, insn.length);
		if (amd64_written(&insn) != known[i].written)
			fail_msg("%s writes %d", known[i].text, amd64_written(&insn));
	}
}

/* Bytes behind the instruction are not looked at. */
static void an_instruction_of_which_a_byte_lacks_is_none(void **state)
{
	struct amd64_insn insn;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		assert_true(amd64_decode(known[i].code, known[i].length, &insn));
		assert_false(amd64_decode(known[i].code, known[i].length - 1, &insn));
	}
}

static void prefixes_without_end_are_no_instruction(void **state)
{
	uint8_t code[32];
	struct amd64_insn insn;

	memset(code, 0x66, sizeof(code));
	assert_false(amd64_decode(code, sizeof(code), &insn));
}

static void bytes_that_are_no_instruction_are_refused(void **state)
{
	static const uint8_t none[] = {0x06, 0x27, 0x60, 0x82, 0x9a, 0xce, 0xd4, 0xea};
	struct amd64_insn insn;

	for (size_t i = 0; i < sizeof(none); i++) {
		uint8_t code[16] = {none[i]};

		assert_false(amd64_decode(code, sizeof(code), &insn));
	}
}

static void operands_are_decoded(void **state)
{
	static const uint8_t lea[] = {0x48, 0x8d, 0x0d, 0x00, 0x02, 0x00, 0x00};
	static const uint8_t load[] = {0x48, 0x8b, 0x6c, 0x24, 0xf8};
	static const uint8_t call[] = {0xe8, 0xfb, 0xff, 0xff, 0xff};
	struct amd64_insn insn;

	assert_true(amd64_decode(lea, sizeof(lea), &insn) && amd64_is_lea(&insn));
	assert_int_equal(insn.base, MODRM_PC);
	assert_int_equal(insn.displacement, 0x200);
	assert_true(amd64_decode(load, sizeof(load), &insn) && amd64_is_load(&insn));
	assert_int_equal(insn.base, MODRM_RSP);
	assert_int_equal(insn.displacement, -8);
	assert_true(amd64_decode(call, sizeof(call), &insn) && amd64_is_call(&insn));
	assert_int_equal(insn.relative, -5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_and_written_registers_are_those_of_the_manual),
		cmocka_unit_test(an_instruction_of_which_a_byte_lacks_is_none),
		cmocka_unit_test(prefixes_without_end_are_no_instruction),
		cmocka_unit_test(bytes_that_are_no_instruction_are_refused),
		cmocka_unit_test(operands_are_decoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
