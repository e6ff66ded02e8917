/* Values of hostile programs: formats without an end, types without one, lengths and addresses of
 * any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/array.h"
#include "dump/arguments.h"
#include "dump/show_value.h"

#define SP 0x1000
#define TEXT 0x20000

static uint64_t stack[8] = {0x11, 0x2222, 0x333333, ~0ull, 5, 6, 7, 8};
static const struct stack_memory memory = {.sp = SP,
					   .bytes = (const uint8_t *)stack,
					   .size = sizeof(stack)};

static void printed_as(const uint8_t *format, size_t size, const uint8_t *live, size_t live_size,
		       int32_t index, const char *text)
{
	const struct argument_info info = {{format, size}, {live, live_size}, index};
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	bool known = arguments_add(&sb, &info, &memory, SP);

	assert_int_equal(known, text != NULL);
	if (text)
		assert_string_equal(sb.data, text);
}

static void arguments_are_printed_as_the_runtime_does(void **state)
{
	static const uint8_t plain[] = {0, 1, 8, 8, 0xff};
	static const uint8_t nested[] = {0, 8, 0xfe, 8, 2, 0xfe, 0xfd, 0xfc, 0xfd, 0xfb, 0xff};
	static const uint8_t live[] = {8, 0, 1};

	printed_as(plain, sizeof(plain), NULL, 0, -1, "0x11, 0x2222");
	printed_as(nested, sizeof(nested), NULL, 0, -1, "0x11, {0x2222, {}, ...}, _");
	printed_as(plain, sizeof(plain), live, sizeof(live), 1, "0x11, 0x2222?");
	printed_as(plain, sizeof(plain), live, sizeof(live), 2, "0x11, 0x2222");
	printed_as(plain, sizeof(plain), live, sizeof(live), 1000, "0x11, 0x2222");
	printed_as(plain, 4, NULL, 0, -1, NULL);
	printed_as(plain, 3, NULL, 0, -1, NULL);
	printed_as((const uint8_t[]){57, 8, 0xff}, 3, NULL, 0, -1, NULL);
	printed_as((const uint8_t[]){56, 8, 0xff}, 3, NULL, 0, -1, "0x8");
	printed_as((const uint8_t[]){0, 200, 0xff}, 3, NULL, 0, -1, "0x11");
	printed_as((const uint8_t[]){0, 0, 0xff}, 3, NULL, 0, -1, "0x0");
}

/* ---- variables ---- */

static const struct go_type integer = {"int", GO_INT, 8};
static const struct go_type empty = {"struct {}", GO_STRUCT};
static const struct go_type byte = {"uint8", GO_UINT, 1};
static const struct go_type pointer = {"*int", GO_POINTER, 8};
static struct go_member text_members[] = {{"str", 0, &pointer}, {"len", 8, &integer}};
static const struct go_type text_type = {"string", GO_STRUCT, 16, text_members, 2};

static char target_text[256];

static void shown_as(const struct go_type *type, const void *bytes, size_t size, size_t known,
		     const char *text)
{
	const struct target_range range = {TEXT, sizeof(target_text), target_text};
	struct value_reader reader = {.stack = &memory};
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct value_bytes value = {.size = size};

	assert_null(target_open_memory(&range, 1, &reader.t));
	memcpy(value.data, bytes, size);
	memset(value.known, true, known);
	value_show(&sb, &reader, type, &value);
	if (text)
		assert_string_equal(sb.data, text);
	assert_true(sb.length < 2048);
	target_close(reader.t);
}

static void strings_are_cut_and_printable(void **state)
{
	memset(target_text, 'x', sizeof(target_text));
	memcpy(target_text, "a\"\n\x1b[31m\\", 10);
	shown_as(&text_type, (uint64_t[]){TEXT, 9}, 16, 16, "\"a\\\"\\n\\x1b[31m\\\\\"");
	shown_as(&text_type, (uint64_t[]){0, 0}, 16, 16, "\"\"");
	shown_as(&text_type, (uint64_t[]){TEXT, 9}, 16, 8, "?");
	shown_as(&text_type, (uint64_t[]){8, 9}, 16, 16, "? (0x8, 9 bytes)");
	shown_as(&text_type, (uint64_t[]){TEXT + 250, ~0ull}, 16, 16, NULL);
	shown_as(&text_type, (uint64_t[]){~0ull - 3, 64}, 16, 16, NULL);
	memset(target_text, 'x', sizeof(target_text));
	memcpy(target_text + 62, "\xe2\x98\x83", 3);
	shown_as(&text_type, (uint64_t[]){TEXT, 100}, 16, 16,
		 "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"... (100 "
		 "bytes)");
	/* From the copy of the stack, where it is in there. */
	shown_as(&text_type, (uint64_t[]){SP, 2}, 16, 16, "\"\\x11\\x00\"");
}

static void numbers_have_their_size(void **state)
{
	static const struct go_type small = {"int8", GO_INT, 1}, yes = {"bool", GO_BOOL, 1},
				    wrong = {"int", GO_INT, 999}, half = {"float32", GO_FLOAT, 4},
				    two = {"complex64", GO_COMPLEX, 8};

	shown_as(&small, "\xff", 1, 1, "-1");
	shown_as(&byte, "\xff", 1, 1, "255");
	shown_as(&yes, "\1", 1, 1, "true");
	shown_as(&yes, "\7", 1, 1, "7");
	shown_as(&half, (float[]){0.5f}, 4, 4, "0.5");
	shown_as(&two, (float[]){1, -2}, 8, 8, "(1 + -2i)");
	shown_as(&wrong, stack, sizeof(stack), sizeof(stack), "?");
	shown_as(&pointer, (uint64_t[]){0}, 8, 8, "nil");
}

static void a_type_within_itself_ends(void **state)
{
	static struct go_member members[] = {{"self", 0, NULL}, {"again", 0, NULL}};
	static struct go_type cycle = {"T", GO_STRUCT, 8, members, 2};
	static struct go_type array = {"[1]A", GO_ARRAY, 8};
	static const struct go_type many = {"[9]int", GO_ARRAY, UINT64_MAX, .element = &byte},
				    none = {"[9]int", GO_ARRAY, 64, .element = &empty};

	members[0].type = members[1].type = &cycle;
	array.element = &array;
	shown_as(&cycle, stack, 8, 8, NULL);
	shown_as(&array, stack, 8, 8, "[[[[[...]]]]]");
	shown_as(&many, stack, 8, 8, NULL);
	shown_as(&none, stack, 8, 8, "[]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_are_printed_as_the_runtime_does),
		cmocka_unit_test(strings_are_cut_and_printable),
		cmocka_unit_test(numbers_have_their_size),
		cmocka_unit_test(a_type_within_itself_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
