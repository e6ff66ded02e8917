#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "cli/duration.h"
#include "cli/filter_options.h"
#include "cli/format_names.h"
#include "lib/goroutine_filter.h"
#include "tests/made_runtime.h"

static struct made_runtime runtime;
static struct goroutine_set *set;
static struct gospect_filter wanted;

static int set_up(void **state)
{
	struct goroutine_options options = {.stack_limit = 65536};

	made_runtime_init(&runtime, 27, 1);
	wanted = (struct gospect_filter){0};
	return error_dropped(
		goroutine_set_open(&runtime.base, &runtime.img, &runtime.lay, &options, &set));
}

static int tear_down(void **state)
{
	goroutine_set_close(set);
	made_runtime_release(&runtime);
	return 0;
}

/* Options as they come from the command line; NULL ends them. */
static struct error *parse(char **words, bool *ret_help)
{
	char *argv[8] = {(char *)"verb"};
	int argc = 1;

	while (words[argc - 1]) {
		argv[argc] = words[argc - 1];
		argc++;
	}
	return parse_options(&filter_argp, "verb", argc, argv, &wanted, ret_help);
}

static void must_parse(char *option)
{
	char *words[] = {option, NULL};
	bool help;

	assert_null(parse(words, &help));
}

static void must_fail(char *first, char *second, const char *why)
{
	char *words[] = {first, second, NULL};
	struct error *err;
	bool help;

	err = parse(words, &help);
	assert_non_null(err);
	assert_int_equal(err->code, ERROR_USAGE);
	assert_string_equal(err->message, why);
	error_destroy(err);
}

static bool matches(enum goroutine_status status, uint8_t reason, uint64_t pc, uint64_t goid)
{
	uint64_t pcs[] = {pc, made_pc(MADE_ROOT, false)};
	struct filter_subject subject = {.status = status, .wait_reason = reason, .goid = goid};
	_cleanup_filter_ struct filter filter;

	assert_null(stacks_intern(goroutine_set_stacks(set), pcs, 2, &subject.stack));
	assert_null(filter_init(&filter, wanted.size ? &wanted : NULL));
	return filter_matches(&filter, &subject, set, &runtime.img);
}

static void numbers_are_taken_whole(void **state)
{
	double value = 0;
	unsigned long id = 0;

	assert_true(parse_number("2.5", 0, 10, &value));
	assert_true(value == 2.5);
	assert_false(parse_number("2.5x", 0, 10, &value));
	assert_false(parse_number("", 0, 10, &value));
	assert_false(parse_number("nan", 0, 10, &value));
	assert_false(parse_number("11", 0, 10, &value));
	assert_true(parse_id("4711", &id));
	assert_int_equal(id, 4711);
	assert_false(parse_id("-1", &id));
	assert_false(parse_id("0", &id));
	assert_false(parse_id("99999999999999999999", &id));
}

static void empty_filter_matches_everything(void **state)
{
	assert_true(matches(G_RUNNING, 0, STACK_PC_RUNNING, 1));
}

static void state_and_wait_reason_are_matched(void **state)
{
	must_parse((char *)"--state=waiting");
	must_parse((char *)"--wait=sleep");
	assert_true(matches(G_WAITING, 2, made_pc(MADE_LEAF, false), 1));
	assert_false(matches(G_WAITING, 1, made_pc(MADE_LEAF, false), 1));
	assert_false(matches(G_SYSCALL, 0, made_pc(MADE_LEAF, false), 1));
}

static void a_part_of_a_wait_reason_is_enough(void **state)
{
	must_parse((char *)"--wait=RECEIVE");
	assert_true(matches(G_WAITING, 1, made_pc(MADE_LEAF, false), 1));
	assert_false(matches(G_WAITING, 2, made_pc(MADE_LEAF, false), 1));
}

static void functions_are_matched_by_expression(void **state)
{
	must_parse((char *)"--func=^main\\.(leaf|other)$");
	assert_true(matches(G_WAITING, 1, made_pc(MADE_LEAF, false), 1));
	assert_true(matches(G_WAITING, 1, made_pc(MADE_OTHER, false), 1));
	assert_false(matches(G_WAITING, 1, made_pc(MADE_SYSTEM, false), 1));
}

static void filter_matches_a_goroutine_by_id(void **state)
{
	must_parse((char *)"-g7");
	assert_true(matches(G_WAITING, 1, made_pc(MADE_LEAF, false), 7));
	assert_false(matches(G_WAITING, 1, made_pc(MADE_LEAF, false), 8));
}

static void wrong_options_are_named(void **state)
{
	must_fail((char *)"--zork", NULL,
		  "verb: unknown option '--zork'; see `gospect verb --help`");
	must_fail((char *)"--wait", NULL,
		  "verb: option '--wait' needs REASON; see `gospect verb --help`");
	must_fail((char *)"--state", (char *)"dead",
		  "verb: --state: invalid state 'dead'; use running, runnable, syscall or waiting");
	must_fail((char *)"--func", (char *)"(",
		  "verb: --func: invalid regular expression '(': Unmatched ( or \\(");
}

static void durations_are_seconds_or_have_the_units_of_go(void **state)
{
	static const struct {
		const char *text;
		double seconds;
	} durations[] = {{"10", 10},           {"0.5", 0.5},      {"10s", 10},
			 {"500ms", 0.5},       {"2m", 120},       {"1h30m", 5400},
			 {"1.5h", 5400},       {"1m30.5s", 90.5}, {"250us", 250e-6},
			 {"7\xc2\xb5s", 7e-6}, {"100ns", 1e-7},   {"1e3", 1000}};
	static const char *const wrong[] = {"10x",   "",    "s",   "10s5", "1h-5m", "-3s", "10 s",
					    "1..5s", "inf", "nan", "5d",   "1h 5m", "-1"};
	double value;

	for (size_t i = 0; i < ARRAY_SIZE(durations); i++) {
		assert_true(parse_duration(durations[i].text, &value));
		assert_float_equal(value, durations[i].seconds, 1e-12);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_false(parse_duration(wrong[i], &value));
}

static void formats_are_found_by_name_and_by_suffix(void **state)
{
	assert_int_equal(format_named("pprof"), GOSPECT_PPROF);
	assert_int_equal(format_named("flame"), 0);
	assert_int_equal(format_for_profile("a/b.pb.gz"), GOSPECT_PPROF);
	assert_int_equal(format_for_profile("b.pprof"), GOSPECT_PPROF);
	assert_int_equal(format_for_profile("b.folded"), GOSPECT_FOLDED);
	assert_int_equal(format_for_profile("x.html"), GOSPECT_HTML);
	assert_int_equal(format_for_profile("x.json"), GOSPECT_SPEEDSCOPE);
	assert_int_equal(format_for_profile("x.gz"), 0);
	assert_int_equal(format_for_profile("x.firefox.json"), GOSPECT_FIREFOX);
	assert_int_equal(format_for_dump("x.json"), GOSPECT_JSON);
	assert_int_equal(format_for_dump("x.firefox.json"), GOSPECT_FIREFOX);
	assert_int_equal(format_named("folded-state"), GOSPECT_FOLDED_STATE);
}

#define CLI_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_taken_whole),
		cmocka_unit_test(durations_are_seconds_or_have_the_units_of_go),
		cmocka_unit_test(formats_are_found_by_name_and_by_suffix),
		CLI_TEST(empty_filter_matches_everything),
		CLI_TEST(state_and_wait_reason_are_matched),
		CLI_TEST(a_part_of_a_wait_reason_is_enough),
		CLI_TEST(functions_are_matched_by_expression),
		CLI_TEST(filter_matches_a_goroutine_by_id),
		CLI_TEST(wrong_options_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
