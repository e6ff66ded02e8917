#include "image/arm64.h"

#include "base/array.h"
#include "base/unit_test.h"

#define REGISTER(n) (1u << (n))

static const struct {
	const char *text;
	uint32_t code;
	uint32_t written;
	bool from_sp;
} known[] = {
	{"ldr x30, [sp], #32", 0xf84207fe, REGISTER(30), true},
	{"ldr x30, [sp, #8]", 0xf94007fe, REGISTER(30), true},
	{"ldur x29, [sp, #-8]", 0xf85f83fd, REGISTER(29), true},
	{"ldp x29, x30, [sp, #-8]", 0xa97ffbfd, REGISTER(29) | REGISTER(30), true},
	{"ldr x30, [x0]", 0xf940001e, REGISTER(30), false},
	{"str x30, [sp, #-32]!", 0xf81e0ffe, 0, false},
	{"stur x29, [sp, #-8]", 0xf81f83fd, 0, false},
	{"stp x29, x30, [sp, #-8]", 0xa93ffbfd, 0, false},
	{"sub x29, sp, #8", 0xd10023fd, REGISTER(29), false},
	{"mov x3, x30", 0xaa1e03e3, REGISTER(3), false},
	{"cmp x2, x1", 0xeb01005f, 0, false},
	{"swpal x5, x6, [x7]", 0xf8e580e6, REGISTER(6), false},
	{"ldaxr x3, [x0]", 0xc85ffc03, REGISTER(3), false},
	{"stlxr w27, x2, [x0]", 0xc81bfc02, REGISTER(27), false},
	{"casal x1, x2, [x0]", 0xc8e1fc02, REGISTER(1), false},
	{"ldr d30, [sp]", 0xfd4003fe, 0, false},
	{"fmov x30, d0", 0x9e66001e, REGISTER(30), false},
	{"fmov d30, x0", 0x9e67001e, 0, false},
	{"prfm pldl1keep, [x0]", 0xf9800000, 0, false},
	{"mrs x3, tpidr_el0", 0xd53bd043, REGISTER(3), false},
	{"bl", 0x94000001, 0, false},
};

static void written_registers_are_those_of_the_manual(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		uint32_t written = arm64_written(known[i].code);

		if (written != known[i].written)
			fail_msg("%s writes %#x", known[i].text, written);
		if (arm64_is_load_from_sp(known[i].code) != known[i].from_sp)
			fail_msg("%s: a load from SP, or not", known[i].text);
	}
}

static void jumps_and_calls_are_recognised(void **state)
{
	assert_true(arm64_is_call(0x94000001) && arm64_is_call(0xd63f0000));
	assert_true(arm64_is_jump(0xd65f03c0) && arm64_is_jump(0xd61f0000));
	assert_true(arm64_is_jump(0x14000001) && arm64_is_jump(0xd4200000));
	assert_false(arm64_is_jump(0x54000041)); /* b.ne */
	assert_false(arm64_is_jump(0x94000001));
}

static void data_is_no_instruction(void **state)
{
	assert_false(arm64_is_instruction(0));
	assert_false(arm64_is_instruction(4096));
	assert_true(arm64_is_instruction(0xd503201f)); /* nop */
}

static void displacements_are_in_bytes(void **state)
{
	uint32_t base;
	int64_t at;

	assert_true(arm64_memory(0xf9401762, &base, &at)); /* ldr x2, [x27, #40] */
	assert_int_equal(base, 27);
	assert_int_equal(at, 40);
	assert_true(arm64_memory(0xb9401762, &base, &at)); /* ldr w2, [x27, #20] */
	assert_int_equal(at, 20);
	assert_true(arm64_memory(0xa97ffbfd, &base, &at)); /* ldp x29, x30, [sp, #-8] */
	assert_int_equal(at, -8);
	assert_true(arm64_memory(0x3dc00420, &base, &at)); /* ldr q0, [x1, #16] */
	assert_int_equal(at, 16);
	assert_false(arm64_memory(0xf8626820, &base, &at)); /* ldr x0, [x1, x2] */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_registers_are_those_of_the_manual),
		cmocka_unit_test(jumps_and_calls_are_recognised),
		cmocka_unit_test(data_is_no_instruction),
		cmocka_unit_test(displacements_are_in_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
