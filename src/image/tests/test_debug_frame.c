/* Call frame information as Go's linker writes it, for made-up programs. */
#include <string.h>

#include "base/cleanup.h"
#include "image/debug_frame.h"
#include "tests/fake_program.h"

#define TEXT 0x401000u

/* A function of 64 bytes: its frame of 24 bytes exists from byte 4 on. From byte 32 on, the
 * information counts it from the frame pointer. */
#define FUNCTION                                                                   \
	0x26, 0, 0, 0,                           /* length */                      \
		0, 0, 0, 0,                      /* its CIE */                     \
		0x00, 0x10, 0x40, 0, 0, 0, 0, 0, /* address */                     \
		0x40, 0, 0, 0, 0, 0, 0, 0,       /* size */                        \
		0x13, 0x7e,                      /* DW_CFA_def_cfa_offset_sf 8 */  \
		0x04, 4, 0, 0, 0,                /* DW_CFA_advance_loc4 4 */       \
		0x13, 0x78,                      /* DW_CFA_def_cfa_offset_sf 32 */ \
		0x04, 28, 0, 0, 0,               /* DW_CFA_advance_loc4 28 */      \
		0x0c, 6, 16,                     /* DW_CFA_def_cfa rbp 16 */       \
		0                                /* DW_CFA_nop */

static const uint8_t amd64[] = {
	0x10,     0,  0, 0,    0xff, 0xff, 0xff, 0xff, /* length, a CIE */
	3,        0,  1, 0x7c, 16, /* version, no words, 1, -4, the return address */
	0x0c,     7,  8,           /* DW_CFA_def_cfa rsp 8 */
	0x05,     16, 2, 0,        /* DW_CFA_offset_extended 16, at CFA - 8 */
	FUNCTION,
};

static struct error *open_bytes(const uint8_t *bytes, size_t size, struct debug_frame **ret)
{
	static const uint8_t code[64];
	struct fake_section section = {".debug_frame", 0, bytes, size};
	struct image img = {.machine = MACHINE_AMD64, .bias = 0x1000};
	struct error *err;

	img.elf = fake_elf(EM_X86_64, &section, size ? 1 : 0, code, sizeof(code), TEXT);
	err = debug_frame_open(&img, ret);
	elf_file_close(img.elf);
	return err;
}

static int32_t delta_at(const struct debug_frame *f, uint64_t at)
{
	int32_t delta = -1;

	return debug_frame_sp_delta(f, 0x1000 + TEXT + at, &delta) ? delta : -1;
}

static void each_instruction_has_its_distance(void **state)
{
	_cleanup_debug_frame_ struct debug_frame *f = NULL;

	assert_null(open_bytes(amd64, sizeof(amd64), &f));
	assert_int_equal(delta_at(f, 0), 0);
	assert_int_equal(delta_at(f, 3), 0);
	assert_int_equal(delta_at(f, 4), 24);
	assert_int_equal(delta_at(f, 31), 24);
}

static void frame_not_based_on_sp_is_unknown(void **state)
{
	_cleanup_debug_frame_ struct debug_frame *f = NULL;

	assert_null(open_bytes(amd64, sizeof(amd64), &f));
	assert_int_equal(delta_at(f, 32), -1);
	assert_int_equal(delta_at(f, 64), -1);
	assert_int_equal(delta_at(f, -1), -1);
}

static void a_program_without_is_refused(void **state)
{
	_cleanup_debug_frame_ struct debug_frame *f = NULL;
	_cleanup_error_ struct error *err = open_bytes(NULL, 0, &f);

	assert_non_null(err);
	assert_int_equal(err->code, ERROR_UNSUPPORTED);
	assert_non_null(strstr(err->message, "no .debug_frame"));
	assert_null(f);
}

/* Under the sanitizers this shows reads out of bounds. */
static void broken_bytes_harm_nothing(void **state)
{
	for (size_t i = 0; i < sizeof(amd64) * 3; i++) {
		_cleanup_debug_frame_ struct debug_frame *f = NULL;
		uint8_t bytes[sizeof(amd64)];

		memcpy(bytes, amd64, sizeof(amd64));
		bytes[i / 3] ^= i % 3 == 0 ? 0xff : i % 3 == 1 ? 0x80 : 1;
		if (error_dropped(open_bytes(bytes, sizeof(bytes), &f)))
			continue;
		for (uint64_t at = 0; at < 64; at += 4)
			assert_true(delta_at(f, at) >= -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_instruction_has_its_distance),
		cmocka_unit_test(frame_not_based_on_sp_is_unknown),
		cmocka_unit_test(a_program_without_is_refused),
		cmocka_unit_test(broken_bytes_harm_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
