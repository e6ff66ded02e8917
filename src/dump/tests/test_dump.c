#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/unit_test.h"
#include "dump/traceback.h"
#include "tests/made_runtime.h"

static struct made_runtime runtime;
static struct dump *dump;

static void take(int minor, size_t count, bool system)
{
	struct dump_options options = {.stack_limit = 65536, .system = system};

	made_runtime_init(&runtime, minor, count);
	assert_null(dump_collect(&runtime.base, &runtime.img, &runtime.lay, &options, &dump));
}

static int stop(void **state)
{
	dump_destroy(dump);
	made_runtime_release(&runtime);
	return 0;
}

static char *text_of(struct error *(*write)(const struct dump *, bool, FILE *), bool all)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_null(write(dump, all, f));
	fclose(f);
	return text;
}

static void text_is_the_runtimes_own(void **state)
{
	_cleanup_free_ char *text = NULL;

	take(27, 2, false);
	text = text_of(dump_write_text, false);
	assert_string_equal(text, "goroutine 1 [chan receive]:\n"
				  "main.leaf(...)\n\t/src/0.go:1 +0xc\n"
				  "main.root(...)\n\t/src/2.go:21 +0xc\n"
				  "\n"
				  "goroutine 2 [chan receive]:\n"
				  "main.leaf(...)\n\t/src/0.go:1 +0xc\n"
				  "main.root(...)\n\t/src/2.go:21 +0xc\n"
				  "created by main.root\n\t/src/2.go:21 +0xc\n");
}

static void option_all_shows_runtime_frames(void **state)
{
	_cleanup_free_ char *text = NULL;

	take(27, 1, true);
	text = text_of(dump_write_text, true);
	assert_non_null(strstr(text, "runtime.goexit(...)\n\t/src/3.go:31 +0x1\n"));
}

static void the_creator_is_named_with_its_goroutine(void **state)
{
	_cleanup_free_ char *text = NULL;

	take(27, 2, false);
	dump->items[1].parent = 1;
	text = text_of(dump_write_text, false);
	assert_non_null(strstr(text, "created by main.root in goroutine 1\n\t/src/2.go:21 +0xc\n"));
}

static void states_are_as_the_runtime_prints_them(void **state)
{
	_cleanup_free_ char *text = NULL;

	take(27, 5, false);
	dump->items[0].locked = true;
	dump->items[0].wait_since = dump->taken - 185000000000ull;
	dump->items[1].status = G_RUNNING;
	dump->items[2].status = G_LEAKED;
	dump->items[3].wait_reason = 2;
	dump->items[3].bubble = 4;
	dump->items[4].unknown = true;
	text = text_of(dump_write_text, false);
	assert_non_null(strstr(text, "goroutine 1 [chan receive, 3 minutes, locked to thread]:\n"));
	assert_non_null(strstr(text, "goroutine 2 [running]:\n\tgoroutine running on other thread; "
				     "stack unavailable\ncreated by main.root\n"));
	assert_non_null(strstr(text, "goroutine 3 [chan receive (leaked)]:\n"));
	assert_non_null(strstr(text, "goroutine 4 [sleep (durable), synctest bubble 4]:\n"));
	assert_non_null(strstr(text, "goroutine 5 [chan receive]:\n\tgoroutine's stack changed"));
}

static void equal_stacks_make_a_group(void **state)
{
	_cleanup_free_ char *text = NULL;

	take(27, 13, false);
	dump->items[12].wait_reason = 2;
	text = text_of(dump_write_groups, false);
	assert_non_null(strstr(text, "12 goroutines [chan receive]: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "
				     "...\nmain.leaf(...)\n"));
	assert_non_null(strstr(text, "\n\n1 goroutine [sleep]: 13\nmain.leaf(...)\n"));
	assert_null(strstr(text, "in goroutine"));
}

static void json_has_what_the_interface_promises(void **state)
{
	_cleanup_free_ char *text = NULL;

	take(27, 2, false);
	text = text_of(dump_write_json, false);
	assert_non_null(
		strstr(text, "\"id\":2,\"state\":\"waiting\",\"wait_reason\":\"chan receive\""));
	assert_non_null(strstr(text,
			       "\"created_by\":{\"func\":\"main.root\",\"file\":\"/src/2.go\","
			       "\"line\":21,\"goroutine\":null}"));
	assert_non_null(strstr(text, "\"frames\":[{\"func\":\"main.leaf\",\"file\":\"/src/0.go\","
				     "\"line\":1,\"pc\":4198412,\"inlined\":false}"));
	assert_non_null(strstr(text, "\"created_by\":null"));
}

static void deep(size_t words, int minor, struct traceback *tb)
{
	uint64_t *pcs = calloc(words, sizeof(*pcs));
	struct stack stack = {pcs, words, false};

	for (size_t i = 0; i < words; i++)
		pcs[i] = made_pc(MADE_ROOT, false);
	runtime.img.info.minor = minor;
	assert_null(traceback_of(&runtime.img, stack, false, TRACEBACK_PRINTED, tb));
	free(pcs);
}

static void long_stacks_are_cut_where_the_runtime_cuts_them(void **state)
{
	_cleanup_traceback_ struct traceback tb = {0};

	take(27, 1, false);
	deep(100, 27, &tb);
	assert_int_equal(tb.count, 100);
	assert_int_equal(tb.elided, 0);
	deep(130, 27, &tb);
	assert_int_equal(tb.count, 100);
	assert_int_equal(tb.head, 50);
	assert_int_equal(tb.elided, 30);
	deep(130, 20, &tb);
	assert_int_equal(tb.count, 100);
	assert_int_equal(tb.head, 100);
	assert_int_equal(tb.elided, -1);
}

static void a_stack_of_the_runtime_alone_is_shown_whole(void **state)
{
	uint64_t pcs[] = {made_pc(MADE_SYSTEM, false), MADE_TEXT + MADE_GOEXIT * MADE_SIZE + 1};
	_cleanup_traceback_ struct traceback tb = {0};

	take(27, 1, false);
	assert_null(traceback_of(&runtime.img, (struct stack){pcs, 2, false}, false,
				 TRACEBACK_PRINTED, &tb));
	assert_int_equal(tb.count, 2);
}

#define DUMP_TEST(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DUMP_TEST(text_is_the_runtimes_own),
		DUMP_TEST(option_all_shows_runtime_frames),
		DUMP_TEST(the_creator_is_named_with_its_goroutine),
		DUMP_TEST(states_are_as_the_runtime_prints_them),
		DUMP_TEST(equal_stacks_make_a_group),
		DUMP_TEST(json_has_what_the_interface_promises),
		DUMP_TEST(long_stacks_are_cut_where_the_runtime_cuts_them),
		DUMP_TEST(a_stack_of_the_runtime_alone_is_shown_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
