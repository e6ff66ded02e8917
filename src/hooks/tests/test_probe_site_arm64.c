/* Where functions can be patched on arm64: on machine code as Go's compilers make it. Runs on
 * either machine. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "hooks/probe_site.h"

#define AT 0x411000

/* Instructions, as the GNU assembler makes them. */
#define LOAD_GUARD 0xf9400b90u    /* ldr x16, [x28, 16] */
#define COMPARE_GUARD 0xeb3063ffu /* cmp sp, x16 */
#define PUSH_LR 0xf81c0ffeu       /* str x30, [sp, -64]! */
#define STORE_FP 0xf81f83fdu      /* stur x29, [sp, -8] */
#define SET_FP 0xd10023fdu        /* sub x29, sp, 8 */
#define FRAME PUSH_LR, STORE_FP, SET_FP
#define STORE_X0 0xf90007e0u     /* str x0, [sp, 8] */
#define STORE_X1 0xf9000be1u     /* str x1, [sp, 16] */
#define ADRP_X0 0x90000000u      /* adrp x0, this page */
#define COMPARE_X0 0xf100001fu   /* cmp x0, 0 */
#define EQUAL_OVER 0x54000040u   /* b.eq to the next but one */
#define NOP 0xd503201fu          /* nop */
#define LOAD_EXCL 0x885ffc01u    /* ldaxr w1, [x0] */
#define ADD_ONE 0x11000421u      /* add w1, w1, 1 */
#define STORE_EXCL 0x8802fc01u   /* stlxr w2, w1, [x0] */
#define ADD_TO_X22 0x91000416u   /* add x22, x0, 1 */
#define INDEX_X22 0xf8766825u    /* ldr x5, [x1, x22] */
#define LOAD_224 0xf9407043u     /* ldr x3, [x2, 224] */
#define CALL 0x94000400u         /* bl 4 KB ahead */
#define LOAD_BYTE 0x39404362u    /* ldrb w2, [x27, 16] */
#define LOAD_BYTE_17 0x39404762u /* ldrb w2, [x27, 17] */
#define ADRP_X27 0x9000001bu     /* adrp x27, this page */
#define ZERO_OVER 0x34000042u    /* cbz w2, to the next but one */
#define MOVE_X23 0xaa1703e0u     /* mov x0, x23 */
#define LOAD_FP 0xf85f83fdu      /* ldur x29, [sp, -8] */
#define POP_LR 0xf84407feu       /* ldr x30, [sp], 64 */
#define LOAD_LR 0xf94003feu      /* ldr x30, [sp] */
#define LOAD_PAIR 0xa97ffbfdu    /* ldp x29, x30, [sp, -8] */
#define ADD_SP 0x910103ffu       /* add sp, sp, 64 */
#define RETURN 0xd65f03c0u       /* ret */
#define JUMP_FAR 0x14000400u     /* b 4 KB ahead */
#define JUMP_X1 0xd61f0020u      /* br x1 */
#define LITERAL 0x5c000040u      /* ldr d0, two instructions ahead */
#define SUPERVISOR 0xd4000001u   /* svc 0 */
#define ADD_ATOMIC 0xb8e10002u   /* ldaddal w1, w2, [x0] */
#define BTI_C 0xd503245fu        /* bti c */
#define SIGN_LR 0xd503233fu      /* paciasp */

/* *ret_index of the probe site; false: refused. */
static bool body(const uint32_t *code, size_t count, unsigned int arguments, bool past_calls,
		 size_t *ret_index)
{
	struct probe_site site;

	if (error_dropped(probe_site_at_body("f", AT, (const uint8_t *)code, 4 * count, arguments,
					     past_calls, &site)))
		return false;
	assert_int_equal(site.length, 4);
	assert_int_equal(site.relative, 0);
	*ret_index = (site.address - AT) / 4;
	assert_memory_equal(site.bytes, &code[*ret_index], 4);
	return true;
}

#define BODY(code, arguments, past_calls, ret) \
	body(code, sizeof(code) / sizeof((code)[0]), arguments, past_calls, ret)

static void the_probe_site_is_behind_the_frame(void **state)
{
	static const uint32_t code[] = {LOAD_GUARD, COMPARE_GUARD, EQUAL_OVER, NOP,
					FRAME,      STORE_X0,      RETURN};
	static const uint32_t leaf[] = {STORE_X0, RETURN};
	size_t i;

	assert_true(BODY(code, SITE_FIRST | SITE_SECOND, false, &i));
	assert_int_equal(i, 7);
	assert_false(BODY(leaf, 0, false, &i));
}

static void only_adrp_depends_on_its_place_and_is_moved(void **state)
{
	static const uint32_t code[] = {FRAME, ADRP_X0, STORE_X0, STORE_X1, RETURN};
	static const uint32_t literal[] = {FRAME, LITERAL, STORE_X1, RETURN};
	size_t i;

	assert_true(BODY(code, SITE_FIRST | SITE_RELATIVE, false, &i));
	assert_int_equal(i, 3);
	assert_true(BODY(code, SITE_SECOND, false, &i));
	assert_int_equal(i, 4);
	assert_false(BODY(code, SITE_FIRST, false, &i)); /* it has changed X0 */
	assert_true(BODY(literal, SITE_SECOND | SITE_RELATIVE, false, &i));
	assert_int_equal(i, 4);
}

static void flags_that_are_still_wanted_forbid_a_probe_site(void **state)
{
	static const uint32_t code[] = {FRAME, COMPARE_X0, STORE_X0, EQUAL_OVER, NOP, RETURN};
	static const uint32_t before[] = {COMPARE_X0, FRAME, STORE_X0, EQUAL_OVER, NOP, RETURN};
	size_t i;

	assert_true(BODY(code, 0, false, &i)); /* the comparison itself needs none */
	assert_int_equal(i, 3);
	assert_false(BODY(before, 0, false, &i));
}

static void between_an_exclusive_load_and_its_store_is_none(void **state)
{
	static const uint32_t code[] = {FRAME, LOAD_EXCL, ADD_ONE, STORE_EXCL, STORE_X0, RETURN};
	static const uint32_t atomic[] = {FRAME, ADD_ATOMIC, STORE_X0, RETURN};
	size_t i;

	assert_true(BODY(code, SITE_FIRST, false, &i));
	assert_int_equal(i, 6);
	assert_true(BODY(atomic, SITE_FIRST, false, &i));
	assert_int_equal(i, 3); /* an atomic operation of LSE is one instruction */
}

static void registers_of_the_stub_must_be_free(void **state)
{
	static const uint32_t writes[] = {FRAME, ADD_TO_X22, STORE_X0, RETURN};
	static const uint32_t reads[] = {FRAME, INDEX_X22, STORE_X0, RETURN};
	size_t i;

	assert_false(BODY(writes, SITE_FIRST, false, &i));
	assert_true(BODY(reads, SITE_FIRST, false, &i));
	assert_int_equal(i, 4);
}

static void behind_a_call_there_are_no_arguments(void **state)
{
	static const uint32_t code[] = {FRAME, CALL, STORE_X0, RETURN};
	size_t i;

	assert_false(BODY(code, 0, false, &i));
	assert_true(BODY(code, 0, true, &i));
	assert_int_equal(i, 4);
}

static void hints_and_system_instructions_stay_where_they_are(void **state)
{
	static const uint32_t code[] = {FRAME, BTI_C, SIGN_LR, SUPERVISOR, STORE_X0, RETURN};
	size_t i;

	assert_false(BODY(code, SITE_FIRST, false, &i)); /* svc ends the search */
	assert_false(body(code, 5, SITE_FIRST, false, &i));
}

static void a_load_is_found_by_its_offset(void **state)
{
	static const uint32_t code[] = {FRAME, STORE_X0, LOAD_224, STORE_X1, RETURN};
	struct probe_site site;

	assert_null(probe_site_at_load("f", AT, (const uint8_t *)code, sizeof(code), 224, &site));
	assert_int_equal(site.address, AT + 16);
	assert_true(error_dropped(
		probe_site_at_load("f", AT, (const uint8_t *)code, sizeof(code), 232, &site)));
}

/* if v { f() }; ...; if v { f() }, and what follows. */
#define GUARDS(second, last)                                                              \
	{                                                                                 \
		FRAME, ADRP_X27, LOAD_BYTE, ZERO_OVER, CALL, ADRP_X27, second, ZERO_OVER, \
			CALL - 4, last, RETURN                                            \
	}
enum { CALLED = AT + 6 * 4 + 0x1000 };

static bool guard(const uint32_t *code, uint64_t called, unsigned int nth, size_t *ret_index)
{
	struct probe_site site;

	if (error_dropped(probe_site_before_call("f", AT, (const uint8_t *)code, 13 * 4, called,
						 nth, &site)))
		return false;
	*ret_index = (site.address - AT) / 4;
	return true;
}

static void a_branch_guard_is_found_by_what_is_called_then(void **state)
{
	static const uint32_t code[] = GUARDS(LOAD_BYTE, STORE_X0);
	static const uint32_t other[] = GUARDS(LOAD_BYTE_17, STORE_X0);
	static const uint32_t wanted[] = GUARDS(LOAD_BYTE, MOVE_X23);
	size_t i;

	assert_true(guard(code, CALLED, 1, &i));
	assert_int_equal(i, 4);
	assert_true(guard(code, CALLED, 2, &i));
	assert_int_equal(i, 8);
	assert_false(guard(code, CALLED, 3, &i));
	assert_false(guard(code, CALLED + 4, 1, &i));
	assert_false(guard(other, CALLED, 1, &i));  /* that variable is read once */
	assert_false(guard(wanted, CALLED, 1, &i)); /* X23 is used afterwards */
}

static struct error *must_check ends(const uint32_t *code, size_t count, unsigned int arguments,
				     struct probe_site_ends *ret)
{
	return probe_site_ends(AT, (const uint8_t *)code, 4 * count, SITE_BEGIN | SITE_RETURNS,
			       arguments, ret);
}

static void a_function_begins_behind_its_check_and_returns_before_its_frame_goes(void **state)
{
	static const uint32_t code[] = {LOAD_GUARD, COMPARE_GUARD, EQUAL_OVER, NOP,     FRAME,
					STORE_X0,   ZERO_OVER,     NOP,        LOAD_FP, POP_LR,
					RETURN,     LOAD_PAIR,     ADD_SP,     RETURN,  LOAD_FP,
					LOAD_LR,    ADD_SP,        ADD_SP,     RETURN};
	struct probe_site_ends found;

	assert_null(ends(code, 21, SITE_FIRST, &found));
	assert_int_equal(found.begin.address, AT + 7 * 4);
	assert_int_equal(found.changed, 0);
	assert_int_equal(found.return_count, 3);
	assert_int_equal(found.returns[0].address, AT + 10 * 4);
	assert_int_equal(found.returns[1].address, AT + 13 * 4);
	assert_int_equal(found.returns[2].address, AT + 16 * 4);
	free(found.returns);
}

static void functions_that_end_otherwise_are_refused(void **state)
{
	static const uint32_t leaf[] = {STORE_X0, RETURN};
	static const uint32_t tail[] = {LOAD_GUARD, COMPARE_GUARD, FRAME,  STORE_X0,
					LOAD_FP,    POP_LR,        RETURN, JUMP_FAR};
	/* b.eq to the ret */
	static const uint32_t over[] = {LOAD_GUARD, COMPARE_GUARD, FRAME,  STORE_X0,
					0x54000060, LOAD_FP,       POP_LR, RETURN};
	struct probe_site_ends found;

	assert_true(error_dropped(ends(leaf, 2, 0, &found)));
	assert_true(error_dropped(ends(tail, 10, 0, &found)));
	assert_true(error_dropped(ends(over, 10, 0, &found)));
}

static void a_jump_is_one_instruction_and_reaches_128_mb(void **state)
{
	uint8_t bytes[SITE_JUMP_BYTES];
	uint32_t insn;

	assert_true(jump_make(AT, AT + (1 << 27) - 4, bytes));
	memcpy(&insn, bytes, sizeof(insn));
	assert_int_equal(insn, 0x15ffffff);
	assert_true(jump_make(AT, AT - (1 << 27), bytes));
	memcpy(&insn, bytes, sizeof(insn));
	assert_int_equal(insn, 0x16000000);
	assert_false(jump_make(AT, AT + (1 << 27), bytes));
	assert_false(jump_make(AT, AT - (1 << 27) - 4, bytes));
	assert_false(jump_make(AT, AT + 6, bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_probe_site_is_behind_the_frame),
		cmocka_unit_test(only_adrp_depends_on_its_place_and_is_moved),
		cmocka_unit_test(flags_that_are_still_wanted_forbid_a_probe_site),
		cmocka_unit_test(between_an_exclusive_load_and_its_store_is_none),
		cmocka_unit_test(registers_of_the_stub_must_be_free),
		cmocka_unit_test(behind_a_call_there_are_no_arguments),
		cmocka_unit_test(hints_and_system_instructions_stay_where_they_are),
		cmocka_unit_test(a_load_is_found_by_its_offset),
		cmocka_unit_test(a_branch_guard_is_found_by_what_is_called_then),
		cmocka_unit_test(
			a_function_begins_behind_its_check_and_returns_before_its_frame_goes),
		cmocka_unit_test(functions_that_end_otherwise_are_refused),
		cmocka_unit_test(a_jump_is_one_instruction_and_reaches_128_mb),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
