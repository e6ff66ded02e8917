/* Entry points and returns of functions of the program, and the trampolines from there to the
 * stubs. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/unit_test.h"
#include "hooks/probe_site.h"
#include "hooks/trampoline.h"

#define AT 0x401000

/* cmp rsp, [r14+16]; jbe +N, and back to the beginning from there */
#define CHECK(behind) 0x49, 0x3b, 0x66, 0x10, 0x76, behind
#define MORE 0xe8, 0, 0, 0, 0, 0xeb

/* Go 1.27: push rbp; mov rbp, rsp; sub rsp, 32; mov [rsp+48], rax; call; add rsp, 32; pop; ret */
static const uint8_t new_small[] = {CHECK(24), 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20,
				    0x48,      0x89, 0x44, 0x24, 0x30, 0xe8, 0,    0,    0,
				    0,         0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3, MORE, 0xdb};
/* Go 1.17: sub rsp, 24; mov [rsp+16], rbp; lea rbp, [rsp+16]; mov rbp, [rsp+16]; add rsp, 24; ret
 */
static const uint8_t old_frame[] = {CHECK(24), 0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24,
				    0x10,      0x48, 0x8d, 0x6c, 0x24, 0x10, 0x48, 0x8b, 0x6c,
				    0x24,      0x10, 0x48, 0x83, 0xc4, 0x18, 0xc3, MORE, 0xdb};
/* as new_small, with a frame of 256 bytes */
static const uint8_t new_large[] = {CHECK(30), 0x55, 0x48, 0x89, 0xe5, 0x48, 0x81, 0xec, 0,
				    1,         0,    0,    0x48, 0x89, 0x44, 0x24, 0x30, 0xe8,
				    0,         0,    0,    0,    0x48, 0x81, 0xc4, 0,    1,
				    0,         0,    0x5d, 0xc3, MORE, 0xd5};

static struct error *ends_of(const uint8_t *code, size_t size, struct probe_site_ends *ret)
{
	return probe_site_ends(AT, code, size, SITE_BEGIN | SITE_RETURNS, 0, ret);
}

static void assert_site(const struct probe_site *site, uint64_t offset, size_t length)
{
	assert_int_equal(site->address - AT, offset);
	assert_int_equal(site->length, length);
}

static void entry_and_return_have_probe_sites(void **state)
{
	struct probe_site_ends ends;

	assert_null(ends_of(new_small, sizeof(new_small), &ends));
	assert_site(&ends.begin, 14, 5);
	assert_int_equal(ends.return_count, 1);
	assert_site(&ends.returns[0], 24, 4);
	assert_int_equal(ends.returns[0].bytes[4], 0x5d);
	free(ends.returns);

	assert_null(ends_of(old_frame, sizeof(old_frame), &ends));
	assert_site(&ends.begin, 10, 5);
	assert_int_equal(ends.return_count, 1);
	assert_site(&ends.returns[0], 20, 5);
	free(ends.returns);

	assert_null(ends_of(new_large, sizeof(new_large), &ends));
	assert_site(&ends.begin, 10, 7);
	assert_site(&ends.returns[0], 27, 7);
	free(ends.returns);
}

static void refuses(const uint8_t *code, size_t size, const char *why)
{
	struct probe_site_ends ends;
	struct error *err = ends_of(code, size, &ends);

	assert_non_null(err);
	assert_int_equal(err->code, ERROR_UNSUPPORTED);
	assert_non_null(strstr(err->message, why));
	error_destroy(err);
}

static void function_without_a_probe_site_is_refused(void **state)
{
	uint8_t code[sizeof(new_small)];

	memcpy(code, new_small, sizeof(code));
	refuses(code + 6, 24, "has no stack frame");             /* no check */
	refuses(code, sizeof(code) - 1, "unknown instructions"); /* cut within an instruction */
	code[36] = 0x7d;                                         /* the last jump leads elsewhere */
	refuses(code, sizeof(code), "ends with a tail call");
	code[36] = (uint8_t)(28 - 37); /* to pop rbp: past the probe site */
	refuses(code, sizeof(code), "no room for a hook at a return");
	code[36] = 0xdb;
	code[27] = 0x90; /* pop rbp alone before the ret */
	memset(code + 24, 0x90, 4);
	refuses(code, sizeof(code), "no room for a hook at a return");
}

/* A loop's beginning is run more than once. */
static void probe_site_avoids_jump_targets(void **state)
{
	uint8_t code[sizeof(new_small)];
	struct probe_site_ends ends;

	memcpy(code, new_small, sizeof(code));
	code[36] = (uint8_t)(14 - 37);
	assert_null(ends_of(code, sizeof(code), &ends));
	assert_site(&ends.begin, 10, 4); /* sub rsp, 32 */
	free(ends.returns);
}

static char none[] = "", stack[] = "[stack]";

static struct code_site four_bytes(uint64_t address, uint8_t next)
{
	return (struct code_site){.address = address, .length = 4, .bytes = {1, 2, 3, 4, next}};
}

static void a_jump_keeps_the_byte_behind_it(void **state)
{
	struct target_map there[] = {{.start = 0x400000, .end = 0x900000, .path = none}};
	struct target_maps maps = {.items = there, .count = 1};
	struct trampolines trampolines = {0};
	struct code_site sites[300];
	uint8_t jump[SITE_JUMP_BYTES];

	for (size_t i = 0; i < 300; i++)
		sites[i] = four_bytes(AT + i * 64, i % 3 ? 0x5d : 0x48);
	sites[7].length = 5;
	assert_true(trampolines_take(&trampolines, &maps, sites, 300));
	assert_int_equal(trampolines.used[0] + trampolines.used[1] + trampolines.used[2], 299);
	assert_int_equal(trampolines.pages[3], 0);
	for (size_t i = 0; i < 300; i++) {
		if (i == 7)
			continue;
		assert_true(code_jump(&sites[i], jump));
		assert_int_equal(jump[4], sites[i].bytes[4]);
		for (size_t k = 0; k < i; k++)
			assert_true(k == 7 || sites[k].jump != sites[i].jump);
	}
	assert_int_equal(sites[7].jump, 0);
}

/* push rbp; mov rbp, rsp; sub rsp, 32; mov rdi, rcx; mov [rsp+48], rax; add rsp, 32; pop; ret: from
 * the store on, RDI has no argument any more. */
static void a_place_where_arguments_are_left_is_preferred(void **state)
{
	static const uint8_t code[] = {CHECK(22), 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20,
				       0x48,      0x89, 0xcf, 0x48, 0x89, 0x44, 0x24, 0x30, 0x48,
				       0x83,      0xc4, 0x20, 0x5d, 0xc3, MORE, 0xdd};
	struct probe_site_ends ends;

	assert_null(probe_site_ends(AT, code, sizeof(code), SITE_BEGIN, SITE_THIRD, &ends));
	assert_site(&ends.begin, 17, 5);
	assert_int_equal(ends.changed & SITE_THIRD, 0);
	assert_int_equal(ends.return_count, 0);
	assert_null(probe_site_ends(AT, code, sizeof(code), SITE_BEGIN, SITE_FOURTH, &ends));
	assert_site(&ends.begin, 10, 4);
	assert_int_equal(ends.changed & SITE_FOURTH, 0);
	assert_null(probe_site_ends(AT, code, sizeof(code), SITE_RETURNS, 0, &ends));
	assert_int_equal(ends.return_count, 1);
	assert_int_equal(ends.begin.length, 0);
	free(ends.returns);
}

static void full_address_space_yields_no_page(void **state)
{
	struct target_map there[] = {{.start = 0x400000, .end = 0x80000000, .path = none}};
	struct target_maps maps = {.items = there, .count = 1};
	struct code_site site = four_bytes(AT, 0x5d), low = four_bytes(AT, 0xe8);
	struct trampolines trampolines = {0};

	assert_false(trampolines_take(&trampolines, &maps, &site, 1));
	assert_false(trampolines_take(&trampolines, &maps, &low, 1));
	assert_int_equal(trampolines.pages[0], 0);
	there[0].start = 0x5df00000;
	there[0].path = stack;
	assert_false(trampolines_take(&trampolines, &maps, &site, 1)); /* it may grow */
	there[0].path = none;
	assert_true(trampolines_take(&trampolines, &maps, &site, 1));
	assert_true(trampolines.pages[0] < 0x5df00000 && trampolines.pages[0] > 0x5d400000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entry_and_return_have_probe_sites),
		cmocka_unit_test(function_without_a_probe_site_is_refused),
		cmocka_unit_test(probe_site_avoids_jump_targets),
		cmocka_unit_test(a_jump_keeps_the_byte_behind_it),
		cmocka_unit_test(full_address_space_yields_no_page),
		cmocka_unit_test(a_place_where_arguments_are_left_is_preferred),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
