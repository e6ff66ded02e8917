/* Made-up stacks, explained word by word. */
#include <stdio.h>
#include <string.h>

#include "annotate/annotate.h"
#include "base/array.h"
#include "base/unit_test.h"
#include "tests/made_functions.h"

#define SP 0xc000001000ull
#define MAX_ROWS 64

enum { LEAF, MIDDLE, ROOT, GOEXIT, SIGPANIC, BARE, FUNCTIONS };

static const struct made_function functions[FUNCTIONS] = {
	[LEAF] = {"main.leaf", NULL, 16, 0, 0},
	[MIDDLE] = {"main.middle", "main.inlined", 48, 0, 0},
	[ROOT] = {"main.root", NULL, 16, 0, 0},
	[GOEXIT] = {"runtime.goexit", NULL, 0, FUNC_TOPFRAME, 0},
	[SIGPANIC] = {"runtime.sigpanic", NULL, 16, 0, 0},
	[BARE] = {"runtime.bare", NULL, 0, 0, 0},
};

struct row {
	uint64_t address;
	int64_t offset;
	uint64_t value;
	bool is_sp, is_fp;
	const char *in_register;
	char text[256];
};

/* A stack under construction, and then its rows. */
struct fixture {
	struct made_functions made;
	uint64_t words[32];
	size_t count;
	struct annotate_input in;
	struct row rows[MAX_ROWS];
	size_t row_count;
};

static const struct variable *known; /* what variables_of() returns for main.middle, */
static size_t known_count;
static const struct variable *leaf_known; /* and for main.leaf */
static size_t leaf_count;

static int set_up(void **state)
{
	static struct fixture f;

	f = (struct fixture){0};
	made_functions_init(&f.made, PCLNTAB_GO120, functions, FUNCTIONS);
	known_count = leaf_count = 0;
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	made_functions_release(&f->made);
	return 0;
}

static struct error *variables_of(void *arg, uint64_t pc, bool is_return,
				  const struct variable **ret, size_t *ret_count)
{
	uint64_t function = (pc - MADE_TEXT) / MADE_SIZE;

	*ret = function == MIDDLE ? known : leaf_known;
	*ret_count = function == MIDDLE ? known_count : function == LEAF ? leaf_count : 0;
	return NULL;
}

static void push(struct fixture *f, uint64_t word)
{
	f->words[f->count++] = word;
}

static uint64_t address_of(size_t word)
{
	return SP + 8 * word;
}

/* leaf (words 0 to 2), middle (3 to 9), root (10 to 12), and what lies above: 13 and 14. */
static void push_amd64(struct fixture *f)
{
	push(f, 0x11);
	push(f, address_of(8));
	push(f, made_pc(MIDDLE, true));
	for (int i = 3; i < 8; i++)
		push(f, 0x100 + i);
	push(f, address_of(11));
	push(f, made_pc(ROOT, false));
	push(f, 0x12);
	push(f, 0);
	push(f, MADE_TEXT + GOEXIT * MADE_SIZE + 1);
	push(f, 0);
	push(f, 0);
}

static void explain_from(struct fixture *f, enum machine machine, uint64_t pc, bool exact)
{
	struct annotation *a;
	struct annotate_row row;
	_cleanup_frames_ struct frames frames = {0};

	f->in.functions = &f->made.tab;
	f->in.machine = machine;
	f->in.memory = (struct stack_memory){.pc = pc,
					     .sp = SP,
					     .exact_pc = exact,
					     .bytes = (const uint8_t *)f->words,
					     .size = 8 * f->count,
					     .whole = true};
	f->in.frames = &frames;
	f->in.stack_end = SP + 8 * f->count;
	f->in.variables = variables_of;
	assert_null(frames_unwind(&f->made.tab, machine, &f->in.memory, &frames));
	assert_null(annotation_create(&f->in, &a));
	f->row_count = 0;
	while (annotation_next(a, &row)) {
		struct row *r = &f->rows[f->row_count++];

		assert_true(f->row_count <= MAX_ROWS);
		*r = (struct row){row.address, row.offset,      row.value, row.is_sp,
				  row.is_fp,   row.in_register, ""};
		snprintf(r->text, sizeof(r->text), "%s", row.text);
	}
	annotation_destroy(a);
}

static void explain(struct fixture *f)
{
	explain_from(f, MACHINE_AMD64, made_pc(LEAF, false), false);
}

/* The text of a word. */
static const char *text_of(const struct fixture *f, size_t word)
{
	for (size_t i = 0; i < f->row_count; i++)
		if (f->rows[i].address == address_of(word))
			return f->rows[i].text;
	return "no row";
}

static void a_row_for_each_word_from_the_top_down(void **state)
{
	struct fixture *f = *state;

	push_amd64(f);
	f->in.fp = address_of(1);
	explain(f);
	assert_int_equal(f->row_count, 15);
	for (size_t i = 0; i < 15; i++) {
		assert_int_equal(f->rows[i].address, address_of(14 - i));
		assert_int_equal(f->rows[i].offset, -8 * (int64_t)i);
		assert_int_equal(f->rows[i].value, f->words[14 - i]);
		assert_int_equal(f->rows[i].is_sp, i == 14);
		assert_int_equal(f->rows[i].is_fp, i == 13);
	}
}

static void return_addresses_say_where_they_return_to(void **state)
{
	struct fixture *f = *state;

	push_amd64(f);
	explain(f);
	assert_string_equal(text_of(f, 12), "return addr to runtime.goexit");
	assert_string_equal(text_of(f, 9), "return addr to main.root at /src/2.go:21");
	assert_string_equal(text_of(f, 2), "return addr to main.inlined at /src/1.go:12, inlined "
					   "into main.middle");
}

static void frame_pointers_are_those_that_lead_to_the_next(void **state)
{
	struct fixture *f = *state;

	push_amd64(f);
	explain(f);
	assert_string_equal(text_of(f, 11), "frame pointer for main.root");
	assert_string_equal(text_of(f, 8), "frame pointer for main.middle");
	assert_string_equal(text_of(f, 1), "frame pointer for main.leaf");
	assert_string_equal(text_of(f, 0), "?");
	assert_string_equal(text_of(f, 13), "?");
	f->words[8] = 0x1234; /* as of assembly that keeps something else there */
	explain(f);
	assert_string_equal(text_of(f, 8), "?");
	assert_string_equal(text_of(f, 1), "frame pointer for main.leaf");
	f->words[1] = address_of(7);
	explain(f);
	assert_string_equal(text_of(f, 1), "? points to offset -56, in the frame of main.middle");
}

static void a_frame_pointer_that_is_not_saved_yet_is_none(void **state)
{
	struct fixture *f = *state;

	push_amd64(f);
	f->in.fp = address_of(8); /* still the caller's */
	explain_from(f, MACHINE_AMD64, made_pc(LEAF, false), true);
	assert_string_equal(text_of(f, 1), "? points to offset -48, in the frame of main.middle");
	f->in.fp = address_of(1);
	explain_from(f, MACHINE_AMD64, made_pc(LEAF, false), true);
	assert_string_equal(text_of(f, 1), "frame pointer for main.leaf");
}

static const struct go_type int_type = {"int", GO_INT, 8, NULL, 0, NULL};
static const struct go_type uint8_type = {"uint8", GO_UINT, 1, NULL, 0, NULL};
static const struct go_type int32_type = {"int32", GO_INT, 4, NULL, 0, NULL};
static const struct go_type bool_type = {"bool", GO_BOOL, 1, NULL, 0, NULL};
static const struct go_type double_type = {"float64", GO_FLOAT, 8, NULL, 0, NULL};
static const struct go_type pointer_type = {"*uint8", GO_POINTER, 8, NULL, 0, NULL};
static struct go_member string_members[] = {{"str", 0, &pointer_type}, {"len", 8, &int_type}};
static const struct go_type string_type = {"string", GO_STRUCT, 16, string_members, 2, NULL};

/* The CFA of main.middle is word 10. */
#define AT(word) (8 * ((int64_t)(word)-10))

static void say_of_middle(const struct variable *variables, size_t count)
{
	known = variables;
	known_count = count;
}

static void variables_are_said_where_they_lie(void **state)
{
	const struct variable variables[] = {
		{"a", &int_type, NULL, true, false, 0, AT(3), 0, 8},
		{"s", &string_type, NULL, false, false, 0, AT(4), 0, 16},
		{"f", &double_type, "main.inlined", false, false, 0, AT(6), 0, 8},
		{"n", &int_type, NULL, false, false, 0, AT(7), 0, 8},
		{"caller's", &int_type, NULL, true, false, 0, AT(10), 0, 8},
	};
	struct fixture *f = *state;
	double value = 1.5;

	push_amd64(f);
	f->words[4] = address_of(10);
	memcpy(&f->words[6], &value, sizeof(value));
	f->words[7] = -5;
	say_of_middle(variables, ARRAY_SIZE(variables));
	explain(f);
	assert_string_equal(text_of(f, 3), "arg a int");
	assert_string_equal(text_of(f, 4), "var s string (str *uint8), points to offset -32, in "
					   "the frame of main.root");
	assert_string_equal(text_of(f, 5), "var s.len int");
	assert_string_equal(text_of(f, 6), "var f float64 = 1.5 of main.inlined, inlined");
	assert_string_equal(text_of(f, 7), "var n int = -5");
	assert_string_equal(text_of(f, 10), "arg caller's int");
}

static void several_in_one_word_are_said_with_their_values(void **state)
{
	const struct variable variables[] = {
		{"ok", &bool_type, NULL, true, false, 0, AT(3), 0, 1},
		{"i", &int32_type, NULL, true, false, 0, AT(3) + 4, 0, 4},
	};
	struct fixture *f = *state;

	push_amd64(f);
	f->words[3] = 0xfffffffe00000001;
	say_of_middle(variables, ARRAY_SIZE(variables));
	explain(f);
	assert_string_equal(text_of(f, 3), "arg i int32 = -2; arg ok bool = true");
}

static void structures_and_arrays_are_taken_apart(void **state)
{
	static const struct go_type pair = {"[2]string", GO_ARRAY, 32, NULL, 0, &string_type};
	static const struct go_type bytes = {"[12]uint8", GO_ARRAY, 12, NULL, 0, &uint8_type};
	static struct go_member members[] = {{"ok", 0, &bool_type}, {"id", 4, &int32_type}};
	static const struct go_type small = {"main.T", GO_STRUCT, 8, members, 2, NULL};
	const struct variable first[] = {{"p", &pair, NULL, false, false, 0, AT(3), 0, 32}};
	const struct variable second[] = {{"b", &bytes, NULL, false, false, 0, AT(3), 0, 12},
					  {"t", &small, NULL, false, false, 0, AT(6), 0, 8}};
	struct fixture *f = *state;

	push_amd64(f);
	say_of_middle(first, 1);
	explain(f);
	assert_string_equal(text_of(f, 3), "var p [2]string ([0].str *uint8)");
	assert_string_equal(text_of(f, 4), "var p[0].len int");
	assert_string_equal(text_of(f, 5), "var p[1].str *uint8");
	assert_string_equal(text_of(f, 6), "var p[1].len int");
	f->words[6] = 0x700000001;
	say_of_middle(second, 2);
	explain(f);
	assert_string_equal(text_of(f, 3), "var b [12]uint8 ([0:8] uint8)");
	assert_string_equal(text_of(f, 4), "var b[8:12] uint8");
	assert_string_equal(text_of(f, 6), "var t main.T (ok bool = true, id int32 = 7)");
}

static void a_part_of_a_variable_is_said_as_such(void **state)
{
	const struct variable variables[] = {
		{"s", &string_type, NULL, false, true, 3, 0, 0, 8},
		{"s", &string_type, NULL, false, false, 0, AT(5), 8, 8},
	};
	struct fixture *f = *state;

	push_amd64(f);
	say_of_middle(variables, 2);
	explain(f);
	assert_string_equal(text_of(f, 5), "var s.len int");
	assert_string_equal(text_of(f, 4), "?");
}

static void variables_in_registers_come_last_where_those_are_known(void **state)
{
	const struct variable variables[] = {{"i", &int_type, NULL, true, true, 3, 0, 0, 8}};
	const uint64_t general[] = {1, 2, 3, 42};
	struct fixture *f = *state;

	push_amd64(f);
	leaf_known = variables;
	leaf_count = 1;
	explain(f);
	assert_int_equal(f->row_count, 15);
	f->in.general = general;
	f->in.general_count = ARRAY_SIZE(general);
	explain(f);
	assert_int_equal(f->row_count, 16);
	assert_string_equal(f->rows[15].in_register, "rbx");
	assert_int_equal(f->rows[15].value, 42);
	assert_string_equal(f->rows[15].text, "arg i int");
	f->in.general_count = 3;
	explain(f);
	assert_int_equal(f->row_count, 15);
}

static void annotation_without_dwarf_names_pointers_and_code(void **state)
{
	struct fixture *f = *state;

	push_amd64(f);
	f->words[3] = address_of(0);
	f->words[4] = made_pc(ROOT, false);
	f->words[5] = f->count * 8 + SP; /* just above the stack */
	explain(f);
	assert_string_equal(text_of(f, 3), "? points to offset -112, in the frame of main.leaf");
	assert_string_equal(text_of(f, 4), "? code of main.root+0xc");
	assert_string_equal(text_of(f, 5), "?");
}

static void arm64_has_lr_at_sp_and_x29_below(void **state)
{
	struct fixture *f = *state;

	push(f, made_pc(MIDDLE, false)); /* leaf: lr, and middle's x29 */
	push(f, address_of(7));
	push(f, made_pc(ROOT, false)); /* middle: lr, four words, root's x29 */
	for (int i = 3; i < 7; i++)
		push(f, i);
	push(f, 0);
	push(f, MADE_TEXT + GOEXIT * MADE_SIZE + 4); /* root: lr */
	push(f, 0);
	push(f, 0);
	explain_from(f, MACHINE_ARM64, made_pc(LEAF, false), false);
	assert_string_equal(text_of(f, 0),
			    "return addr to main.middle at /src/1.go:11 (lr saved by main.leaf)");
	assert_string_equal(text_of(f, 1), "frame pointer for main.middle (x29)");
	assert_string_equal(text_of(f, 2),
			    "return addr to main.root at /src/2.go:21 (lr saved by main.middle)");
	assert_string_equal(text_of(f, 7), "frame pointer for main.root (x29)");
	assert_string_equal(text_of(f, 8), "return addr to runtime.goexit (lr saved by main.root)");
}

static void arm64_keeps_the_lr_of_who_was_interrupted(void **state)
{
	struct fixture *f = *state;

	push(f, MADE_TEXT + BARE * MADE_SIZE + 4); /* sigpanic: lr, the pc that was interrupted */
	push(f, 0);
	push(f, made_pc(ROOT, false)); /* the lr of that */
	push(f, 0);
	push(f, MADE_TEXT + GOEXIT * MADE_SIZE + 4); /* root's */
	push(f, 0);
	explain_from(f, MACHINE_ARM64, made_pc(SIGPANIC, false), false);
	assert_string_equal(text_of(f, 2), "lr of runtime.bare when it was interrupted");
	assert_string_equal(text_of(f, 4), "return addr to runtime.goexit (lr saved by main.root)");
}

static void annotation_stops_where_unwinding_fails(void **state)
{
	struct fixture *f = *state;

	push_amd64(f);
	f->words[2] = 0x123;
	explain(f);
	assert_int_equal(f->row_count, 15);
	for (size_t i = 0; i < 15; i++)
		assert_true(f->rows[i].text[0] == '?');
}

/* Types that lead back to themselves, and variables that are everywhere and of every size. */
static void nonsense_ends(void **state)
{
	struct go_type loop = {"loop", GO_STRUCT, UINT64_MAX, NULL, 1, NULL};
	struct go_member member = {"again", 0, &loop};
	struct go_type array = {"array", GO_ARRAY, UINT64_MAX, NULL, 0, &array};
	struct go_type empty = {"empty", GO_ARRAY, 0, NULL, 0, &empty};
	struct variable variables[512];
	struct fixture *f = *state;

	loop.members = &member;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		variables[i] = (struct variable){"v",
						 i % 3 ? i % 3 == 1 ? &array : &empty : &loop,
						 NULL,
						 false,
						 false,
						 0,
						 (int64_t)i * (i % 2 ? 3 : -3) - 40,
						 i % 5,
						 i % 7 ? i : UINT64_MAX};
	push_amd64(f);
	say_of_middle(variables, ARRAY_SIZE(variables));
	explain(f);
	assert_int_equal(f->row_count, 15);
	assert_string_equal(text_of(f, 12), "return addr to runtime.goexit");
}

#define ANNOTATE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ANNOTATE_TEST(a_row_for_each_word_from_the_top_down),
		ANNOTATE_TEST(return_addresses_say_where_they_return_to),
		ANNOTATE_TEST(frame_pointers_are_those_that_lead_to_the_next),
		ANNOTATE_TEST(a_frame_pointer_that_is_not_saved_yet_is_none),
		ANNOTATE_TEST(variables_are_said_where_they_lie),
		ANNOTATE_TEST(several_in_one_word_are_said_with_their_values),
		ANNOTATE_TEST(structures_and_arrays_are_taken_apart),
		ANNOTATE_TEST(a_part_of_a_variable_is_said_as_such),
		ANNOTATE_TEST(variables_in_registers_come_last_where_those_are_known),
		ANNOTATE_TEST(annotation_without_dwarf_names_pointers_and_code),
		ANNOTATE_TEST(arm64_has_lr_at_sp_and_x29_below),
		ANNOTATE_TEST(arm64_keeps_the_lr_of_who_was_interrupted),
		ANNOTATE_TEST(annotation_stops_where_unwinding_fails),
		ANNOTATE_TEST(nonsense_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
