/* Where functions can be patched: on machine code as Go's compilers make it. */
#include <stdbool.h>
#include <string.h>

#include "base/unit_test.h"
#include "hooks/probe_site.h"

#define AT 0x401000

/* *ret_offset of the probe site; false: refused. */
static bool body(const uint8_t *code, size_t size, unsigned int arguments, bool past_calls,
		 uint64_t *ret_offset)
{
	struct probe_site site;

	if (error_dropped(probe_site_at_body("f", AT, code, size, arguments, past_calls, &site)))
		return false;
	*ret_offset = site.address - AT;
	return true;
}

#define BODY(code, arguments, past_calls, ret) body(code, sizeof(code), arguments, past_calls, ret)

/* casgstatus of Go 1.19: sub rsp, 64; mov [rsp+56], rbp; lea rbp, [rsp+56]; mov [rsp+72], rax */
static const uint8_t old_frame[] = {0x48, 0x83, 0xec, 0x40, 0x48, 0x89, 0x6c, 0x24, 0x38, 0x48,
				    0x8d, 0x6c, 0x24, 0x38, 0x48, 0x89, 0x44, 0x24, 0x48, 0xc3};
/* of Go 1.27: push rbp; mov rbp, rsp; sub rsp, 88; mov [rsp+104], rax */
static const uint8_t new_frame[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec,
				    0x58, 0x48, 0x89, 0x44, 0x24, 0x68, 0xc3};

static void the_probe_site_is_behind_the_frame(void **state)
{
	uint64_t offset;

	assert_true(BODY(old_frame, SITE_FIRST | SITE_SECOND | SITE_THIRD, false, &offset));
	assert_int_equal(offset, 14);
	assert_true(BODY(new_frame, SITE_FIRST | SITE_SECOND | SITE_THIRD, false, &offset));
	assert_int_equal(offset, 8);
}

static void probe_site_skips_position_dependent_instructions(void **state)
{
	/* push rbp; mov rbp, rsp; lea rdx, [rip+5]; mov [rsp+16], rax */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x15, 5,   0,
				       0,    0,    0x48, 0x89, 0x44, 0x24, 0x10, 0xc3};
	uint64_t offset;

	assert_true(BODY(code, SITE_FIRST, false, &offset));
	assert_int_equal(offset, 11);
}

static void probe_site_accepts_position_dependent_instructions_on_request(void **state)
{
	/* push rbp; mov rbp, rsp; cmp dword [rip+256], 7; mov [rsp+16], rax */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x83, 0x3d, 0,    1,   0,
				       0,    7,    0x48, 0x89, 0x44, 0x24, 0x10, 0xc3};
	struct probe_site site;

	assert_null(probe_site_at_body("f", AT, code, sizeof(code), SITE_FIRST | SITE_RELATIVE,
				       false, &site));
	assert_int_equal(site.address, AT + 4);
	assert_int_equal(site.length, 7);
	assert_int_equal(site.relative, 2);
	assert_null(probe_site_at_body("f", AT, code, sizeof(code), SITE_FIRST, false, &site));
	assert_int_equal(site.address, AT + 11);
	assert_int_equal(site.relative, 0);
}

static void flags_that_are_still_wanted_forbid_a_probe_site(void **state)
{
	/* push rbp; mov rbp, rsp; test rax, rax; mov [rsp+16], rax; je +2; nop; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x85, 0xc0, 0x48,
				       0x89, 0x44, 0x24, 0x10, 0x74, 0x01, 0x90, 0xc3};
	uint64_t offset;

	assert_false(BODY(code, SITE_FIRST, false, &offset));
}

static void a_changed_argument_forbids_a_probe_site(void **state)
{
	/* push rbp; mov rbp, rsp; mov eax, [rax]; mov [rsp+16], rax; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x8b, 0x00,
				       0x48, 0x89, 0x44, 0x24, 0x10, 0xc3};
	uint64_t offset;

	assert_false(BODY(code, SITE_FIRST, false, &offset));
	assert_true(BODY(code, SITE_SECOND, false, &offset));
	assert_int_equal(offset, 6);
}

static void behind_a_call_there_are_no_arguments(void **state)
{
	/* push rbp; mov rbp, rsp; call +0; mov [rsp+16], rax; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xe8, 0,    0,   0,
				       0,    0x48, 0x89, 0x44, 0x24, 0x10, 0xc3};
	uint64_t offset;

	assert_false(BODY(code, 0, false, &offset));
	assert_true(BODY(code, 0, true, &offset));
	assert_int_equal(offset, 9);
}

static void registers_of_the_stub_must_be_free(void **state)
{
	/* push rbp; mov rbp, rsp; mov r12, rax; mov [rsp+16], rax; mov [rsp+24], r12; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x49, 0x89, 0xc4, 0x48, 0x89,
				       0x44, 0x24, 0x10, 0x4c, 0x89, 0x64, 0x24, 0x18, 0xc3};
	uint64_t offset;

	assert_false(BODY(code, SITE_FIRST, false, &offset));
}

static void code_that_is_no_function_of_gos_is_refused(void **state)
{
	static const uint8_t code[32] = {0xc3, 0xcc, 0xcc}, jumps[32] = {0xeb, 0x10};
	uint64_t offset;

	assert_false(BODY(code, 0, false, &offset));
	assert_false(BODY(jumps, 0, true, &offset));
	assert_false(body(new_frame, 9, SITE_FIRST, false, &offset)); /* cut in the middle */
}

static void a_probe_site_over_the_end_of_a_page_is_only_taken_when_there_is_no_other(void **state)
{
	/* push rbp; mov rbp, rsp; mov [rsp+16], rax; mov [rsp+24], rax; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x44, 0x24,
				       0x10, 0x48, 0x89, 0x44, 0x24, 0x18, 0xc3};
	struct probe_site site;

	assert_null(probe_site_at_body("f", 0x402000 - 6, code, sizeof(code), SITE_FIRST, false,
				       &site));
	assert_int_equal(site.address, 0x402000 + 3);
	/* and behind it nothing but the return */
	assert_null(probe_site_at_body("f", 0x402000 - 11, code, sizeof(code), SITE_FIRST, false,
				       &site));
	assert_int_equal(site.address, 0x402000 - 7);
}

static void a_load_is_found_by_its_offset(void **state)
{
	/* push rbp; mov rbp, rsp; mov rcx, [r14+0x30]; mov rsi, [rcx+0xe0]; test rsi, rsi; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x49, 0x8b, 0x4e, 0x30, 0x48, 0x8b,
				       0xb1, 0xe0, 0,    0,    0,    0x48, 0x85, 0xf6, 0xc3};
	struct probe_site site;

	assert_null(probe_site_at_load("f", AT, code, sizeof(code), 0xe0, &site));
	assert_int_equal(site.address, AT + 8);
	assert_int_equal(site.length, 7);
	assert_true(error_dropped(probe_site_at_load("f", AT, code, sizeof(code), 0xe8, &site)));
}

/* push rbp; mov rbp, rsp; cmp byte [rip+0x100], 0; je +5; call +0x1000; cmp byte [rip+0xf2], 0;
 * je +5; call +0xff2; mov rcx, r12; pop rbp; ret */
static const uint8_t guards[] = {0x55, 0x48, 0x89, 0xe5, 0x80, 0x3d, 0,   1,    0,    0,
				 0,    0x74, 5,    0xe8, 0,    0x10, 0,   0,    0x80, 0x3d,
				 0xf2, 0,    0,    0,    0,    0x74, 5,   0xe8, 0xf2, 0x0f,
				 0,    0,    0x4c, 0x89, 0xe1, 0x5d, 0xc3};
enum { CALLED = AT + 18 + 0x1000, FIRST_QUESTION = 4, SECOND_QUESTION = 18, USE_OF_R12 = 32 };

static bool guard(const uint8_t *code, uint64_t called, unsigned int nth, struct probe_site *ret)
{
	return !error_dropped(
		probe_site_before_call("f", AT, code, sizeof(guards), called, nth, ret));
}

static void a_branch_guard_is_found_by_what_is_called_then(void **state)
{
	uint8_t code[sizeof(guards)];
	struct probe_site site;

	memcpy(code, guards, sizeof(code));
	code[USE_OF_R12] = 0x48; /* mov rcx, rsp */
	assert_true(guard(code, CALLED, 1, &site));
	assert_int_equal(site.address, AT + FIRST_QUESTION);
	assert_int_equal(site.length, 7);
	assert_int_equal(site.relative, 2);
	assert_true(guard(code, CALLED, 2, &site));
	assert_int_equal(site.address, AT + SECOND_QUESTION);
	assert_false(guard(code, CALLED, 3, &site));
	assert_false(guard(code, CALLED + 1, 1, &site));
}

static void a_branch_guard_that_is_read_once_may_be_another(void **state)
{
	uint8_t code[sizeof(guards)];
	struct probe_site site;

	memcpy(code, guards, sizeof(code));
	code[USE_OF_R12] = 0x48;
	code[SECOND_QUESTION + 2] = 0xf0;
	assert_false(guard(code, CALLED, 1, &site));
}

static void behind_a_branch_guard_registers_of_the_stub_must_not_be_wanted(void **state)
{
	struct probe_site site;

	assert_false(guard(guards, CALLED, 1, &site));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_probe_site_is_behind_the_frame),
		cmocka_unit_test(probe_site_skips_position_dependent_instructions),
		cmocka_unit_test(probe_site_accepts_position_dependent_instructions_on_request),
		cmocka_unit_test(flags_that_are_still_wanted_forbid_a_probe_site),
		cmocka_unit_test(a_changed_argument_forbids_a_probe_site),
		cmocka_unit_test(behind_a_call_there_are_no_arguments),
		cmocka_unit_test(registers_of_the_stub_must_be_free),
		cmocka_unit_test(code_that_is_no_function_of_gos_is_refused),
		cmocka_unit_test(
			a_probe_site_over_the_end_of_a_page_is_only_taken_when_there_is_no_other),
		cmocka_unit_test(a_load_is_found_by_its_offset),
		cmocka_unit_test(a_branch_guard_is_found_by_what_is_called_then),
		cmocka_unit_test(a_branch_guard_that_is_read_once_may_be_another),
		cmocka_unit_test(behind_a_branch_guard_registers_of_the_stub_must_not_be_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
