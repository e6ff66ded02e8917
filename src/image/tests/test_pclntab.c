#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "image/buildinfo.h"
#include "tests/made_functions.h"

static const struct made_function functions[] = {
	{"main.main", NULL, 48, 0, 0},
	{"main.Map[go.shape.int,go.shape.string]", "main.inner[go.shape.int]", 24, 0, 0},
	{"main.(*T).Wrapped", NULL, 16, 0, 99},
	{"runtime.goexit", NULL, 0, FUNC_TOPFRAME, 0},
};

static const enum pclntab_format formats[] = {PCLNTAB_GO116, PCLNTAB_GO118, PCLNTAB_GO120};

static void each_format(void (*check)(const struct pclntab *tab))
{
	for (size_t i = 0; i < 3; i++) {
		struct made_functions m;

		made_functions_init(&m, formats[i], functions, 4);
		check(&m.tab);
		made_functions_release(&m);
	}
}

static void check_lookup(const struct pclntab *tab)
{
	struct go_func f;

	assert_true(pclntab_find(tab, MADE_TEXT, &f));
	assert_string_equal(f.name, "main.main");
	assert_true(pclntab_find(tab, MADE_TEXT + MADE_SIZE - 1, &f));
	assert_int_equal(f.entry, MADE_TEXT);
	assert_int_equal(f.end, MADE_TEXT + MADE_SIZE);
	assert_true(pclntab_find(tab, MADE_TEXT + 3 * MADE_SIZE + 1, &f));
	assert_string_equal(f.name, "runtime.goexit");
	assert_int_equal(f.flags, FUNC_TOPFRAME);
	assert_false(pclntab_find(tab, MADE_TEXT - 1, &f));
	assert_false(pclntab_find(tab, MADE_TEXT + 4 * MADE_SIZE, &f));
	assert_true(pclntab_find_name(tab, "main.(*T).Wrapped", &f));
	assert_false(pclntab_find_name(tab, "main.none", &f));
}

static void functions_are_found_by_pc_and_name(void **state)
{
	each_format(check_lookup);
}

static void check_delta(const struct pclntab *tab)
{
	struct go_func f;

	assert_true(pclntab_find(tab, MADE_TEXT, &f));
	assert_int_equal(pclntab_sp_delta(&f, MADE_TEXT), 0);
	assert_int_equal(pclntab_sp_delta(&f, MADE_TEXT + MADE_BODY - 1), 0);
	assert_int_equal(pclntab_sp_delta(&f, MADE_TEXT + MADE_BODY), 48);
	assert_int_equal(pclntab_sp_delta(&f, MADE_TEXT + MADE_SIZE), -1);
}

static void sp_delta_changes_with_the_prologue(void **state)
{
	each_format(check_delta);
}

static void check_frames(const struct pclntab *tab)
{
	struct go_frame frames[4];

	assert_int_equal(pclntab_frames(tab, made_pc(1, false), frames, 4), 1);
	assert_string_equal(frames[0].function, "main.Map[...]");
	assert_string_equal(frames[0].file, "/src/1.go");
	assert_int_equal(frames[0].line, 11);
	assert_false(frames[0].inlined);
	assert_int_equal(pclntab_frames(tab, made_pc(1, true), frames, 4), 2);
	assert_string_equal(frames[0].function, "main.inner[...]");
	assert_true(frames[0].inlined);
	assert_int_equal(frames[0].line, 12);
	assert_string_equal(frames[1].function, "main.Map[...]");
	assert_int_equal(frames[1].line, 11);
	assert_int_equal(pclntab_frames(tab, made_pc(1, true), frames, 1), 1);
	assert_int_equal(pclntab_frames(tab, MADE_TEXT - 5, frames, 4), 0);
}

static void inlined_calls_are_expanded(void **state)
{
	each_format(check_frames);
}

static void functions_say_where_they_begin(void **state)
{
	struct made_functions m;
	struct go_frame frames[2];

	made_functions_init(&m, PCLNTAB_GO120, functions, 4);
	assert_int_equal(pclntab_frames(&m.tab, made_pc(1, true), frames, 2), 2);
	assert_int_equal(frames[0].start_line, 1);
	assert_int_equal(frames[1].start_line, 1);
	made_functions_release(&m);
	made_functions_init(&m, PCLNTAB_GO118, functions, 4);
	assert_int_equal(pclntab_frames(&m.tab, made_pc(1, false), frames, 2), 1);
	assert_int_equal(frames[0].start_line, 0);
	made_functions_release(&m);
}

static void check_exact(const struct pclntab *tab)
{
	uint64_t second = MADE_TEXT + MADE_SIZE;
	struct go_frame frames[4];

	assert_int_equal(pclntab_frames(tab, second, frames, 4), 1);
	assert_string_equal(frames[0].function, "main.main");
	assert_int_equal(pclntab_frames(tab, second | STACK_PC_EXACT, frames, 4), 1);
	assert_string_equal(frames[0].function, "main.Map[...]");
}

static void a_return_address_belongs_to_the_call_before_it(void **state)
{
	each_format(check_exact);
}

static void pseudo_words_have_names(void **state)
{
	struct made_functions m;
	struct go_frame frame;

	made_functions_init(&m, PCLNTAB_GO120, functions, 4);
	assert_int_equal(pclntab_frames(&m.tab, STACK_PC_RUNNING, &frame, 1), 1);
	assert_string_equal(frame.function, "[running]");
	assert_int_equal(pclntab_frames(&m.tab, 0, &frame, 1), 0);
	made_functions_release(&m);
}

static void wrappers_are_hidden_unless_they_panic(void **state)
{
	struct go_frame wrapper = {.function = "main.(*T).Wrapped", .wrapper = true};
	struct go_frame panic = {.function = "runtime.gopanic"}, other = {.function = "main.f"};

	assert_true(go_frame_hidden(&wrapper, &other));
	assert_true(go_frame_hidden(&wrapper, NULL));
	assert_false(go_frame_hidden(&wrapper, &panic));
	assert_false(go_frame_hidden(&other, NULL));
}

/* Every byte of every table set to every of a few values: nothing is read out of bounds, which the
 * sanitizers see, and nothing hangs. */
static void broken_tables_are_survived(void **state)
{
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
	struct made_functions m;
	struct go_frame frames[8];

	made_functions_init(&m, PCLNTAB_GO120, functions, 4);
	struct strbuf *all[] = {&m.ftab,  &m.funcs, &m.names, &m.cutab,
				&m.files, &m.pctab, &m.gofunc};

	for (size_t t = 0; t < 7; t++) {
		for (size_t i = 0; i < all[t]->length; i++) {
			char saved = all[t]->data[i];

			for (size_t v = 0; v < sizeof(values); v++) {
				all[t]->data[i] = values[v];
				for (size_t k = 0; k < 4; k++)
					pclntab_frames(&m.tab, made_pc(k, true), frames, 8);
			}
			all[t]->data[i] = saved;
		}
	}
	for (size_t k = 0; k < 4; k++)
		assert_true(pclntab_frames(&m.tab, made_pc(k, true), frames, 8) > 0);
	made_functions_release(&m);
}

static void check_version(const char *text, int minor, bool experiment)
{
	struct buildinfo info;

	assert_null(buildinfo_of_version(text, &info));
	assert_int_equal(info.minor, minor);
	assert_int_equal(info.experiment, experiment);
	buildinfo_release(&info);
}

static void versions_are_understood(void **state)
{
	check_version("go1.27.2", 27, false);
	check_version("go1.17", 17, false);
	check_version("go1.28rc1", 28, false);
	check_version("go1.24.4 X:staticlockranking", 24, true);
	check_version("go1.26.0-X:jsonv2", 26, true);
	check_version("go1.22.5 (Red Hat 1.22.5-1.el9)", 22, false);
	check_version("devel go1.28-0123456 Mon", -1, false);
	check_version("go1.27-devel_0123456 Mon Jan 5", -1, false);
	check_version("go1.27-devel_0123456-X:simd", -1, true);
	check_version("go2", -1, false);
	check_version("", -1, false);
}

/* 64 MB of values that lead nowhere, looked up 1,000 times: 60 s, if it were read to its end. */
static void a_table_without_an_end_costs_little(void **state)
{
	size_t size = 64u << 20;
	uint8_t *endless = malloc(size);
	struct made_functions m;
	struct go_func f;

	assert_non_null(endless);
	made_functions_init(&m, PCLNTAB_GO120, functions, 4);
	for (size_t i = 0; i < size; i += 2) {
		endless[i] = 2;
		endless[i + 1] = 0;
	}
	assert_true(pclntab_find(&m.tab, MADE_TEXT, &f));
	f.pcsp = 2;
	m.tab.pctab = (struct bytes){endless, size};
	for (int i = 0; i < 1000; i++)
		assert_int_equal(pclntab_sp_delta(&f, MADE_TEXT), -1);
	free(endless);
	made_functions_release(&m);
}

#define PLUGIN_TEXT (MADE_TEXT + 0x100000)

static const struct made_function of_plugin[] = {
	{"plugin.Start", "plugin.inner", 32, 0, 0},
	{"plugin.init", NULL, 16, 0, 0},
};

struct opened {
	struct pclntab *first;
	struct made_functions plugin;
	int asked;
};

/* It is opened when it is asked for the second time. */
static bool open_plugin(void *arg, uint64_t pc)
{
	struct opened *o = arg;

	if (++o->asked != 2)
		return false;
	o->first->next = &o->plugin.tab;
	return true;
}

static void a_plugin_is_found_when_a_pc_is_in_no_module(void **state)
{
	struct made_functions program;
	struct opened o = {.first = &program.tab};
	struct go_frame frames[4];
	struct go_func f;

	made_functions_init(&program, PCLNTAB_GO120, functions, 4);
	made_functions_init(&o.plugin, PCLNTAB_GO120, of_plugin, 2);
	o.plugin.tab.text = PLUGIN_TEXT;
	o.plugin.tab.etext = PLUGIN_TEXT + 2 * MADE_SIZE;
	program.tab.more = open_plugin;
	program.tab.more_arg = &o;
	assert_true(pclntab_find(&program.tab, MADE_TEXT, &f));
	assert_int_equal(o.asked, 0);
	assert_false(pclntab_find(&program.tab, PLUGIN_TEXT, &f));
	assert_true(pclntab_find(&program.tab, PLUGIN_TEXT + MADE_BODY, &f));
	assert_string_equal(f.name, "plugin.Start");
	assert_int_equal(pclntab_sp_delta(&f, PLUGIN_TEXT + MADE_BODY), 32);
	assert_true(pclntab_is_code(&program.tab, PLUGIN_TEXT + 1));
	assert_int_equal(pclntab_frames(&program.tab, PLUGIN_TEXT + MADE_INLINED + 4, frames, 4),
			 2);
	assert_string_equal(frames[0].function, "plugin.inner");
	assert_string_equal(frames[1].function, "plugin.Start");
	assert_int_equal(o.asked, 2);
	assert_false(pclntab_is_code(&program.tab, PLUGIN_TEXT - 1));
	made_functions_release(&program);
	made_functions_release(&o.plugin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_are_found_by_pc_and_name),
		cmocka_unit_test(sp_delta_changes_with_the_prologue),
		cmocka_unit_test(inlined_calls_are_expanded),
		cmocka_unit_test(functions_say_where_they_begin),
		cmocka_unit_test(a_return_address_belongs_to_the_call_before_it),
		cmocka_unit_test(pseudo_words_have_names),
		cmocka_unit_test(wrappers_are_hidden_unless_they_panic),
		cmocka_unit_test(broken_tables_are_survived),
		cmocka_unit_test(versions_are_understood),
		cmocka_unit_test(a_table_without_an_end_costs_little),
		cmocka_unit_test(a_plugin_is_found_when_a_pc_is_in_no_module),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
