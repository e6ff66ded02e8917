#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/test_folder.h"
#include "base/unit_test.h"
#include "profile/source_files.h"
#include "profile/sources.h"
#include "tests/made_up.h"

#define _cleanup_made_up_ __attribute__((cleanup(made_up_deinit)))
#define _cleanup_folder_ __attribute__((cleanup(source_folder_close)))

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void make_folders(void)
{
	static const char *const folders[] = {"dir",          "dir/api", "dir/shop",
					      "dir/shop/api", "dir/etc", "outside"};

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		assert_int_equal(mkdir(folders[i], 0700), 0);
}

/* The content of the file that the name leads to; "" if there is none. */
static const char *found(const char *name)
{
	_cleanup_folder_ struct source_folder folder = {.path = "dir"};
	static char text[64];
	_cleanup_close_ int fd = source_open(&folder, name);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void the_longest_end_of_a_name_is_found(void **state)
{
	make_folders();
	write_file("dir/shop/api/a.go", "shop api");
	write_file("dir/api/a.go", "api");
	write_file("dir/a.go", "top");
	assert_string_equal(found("/build/src/shop/api/a.go"), "shop api");
	assert_string_equal(found("/build/api/a.go"), "api");
	assert_string_equal(found("api/a.go"), "api");
	assert_string_equal(found("/build/other/a.go"), "top");
	assert_string_equal(found("a.go"), "top");
	assert_string_equal(found("/build//a.go"), "top");
	assert_string_equal(found("/build/b.go"), "");
}

static void no_name_leads_out_of_the_directory(void **state)
{
	char absolute[64];

	make_folders();
	write_file("outside/out.go", "secret");
	write_file("secret.go", "secret");
	snprintf(absolute, sizeof(absolute), "%s/outside/out.go", test_folder);
	assert_int_equal(symlink("../outside/out.go", "dir/link.go"), 0);
	assert_int_equal(symlink("../outside", "dir/linked"), 0);
	assert_int_equal(symlink(absolute, "dir/absolute.go"), 0);
	assert_string_equal(found("../secret.go"), "");
	assert_string_equal(found("api/../../secret.go"), "");
	assert_string_equal(found("../../etc/passwd"), "");
	assert_string_equal(found("/etc/passwd"), "");
	assert_string_equal(found(absolute), "");
	assert_string_equal(found("link.go"), "");
	assert_string_equal(found("linked/out.go"), "");
	assert_string_equal(found("absolute.go"), "");
	/* These files exist, and careless code would find them. */
	assert_int_equal(access("dir/../secret.go", R_OK), 0);
	assert_int_equal(access("dir/linked/out.go", R_OK), 0);
}

static void only_regular_go_files_are_opened(void **state)
{
	char longest[9000];

	make_folders();
	assert_int_equal(mkfifo("dir/pipe.go", 0600), 0);
	assert_int_equal(mkdir("dir/folder.go", 0700), 0);
	write_file("dir/etc/passwd", "secret");
	assert_string_equal(found("pipe.go"), "");
	assert_string_equal(found("folder.go"), "");
	assert_string_equal(found("/etc/passwd"), "");
	assert_string_equal(found(""), "");
	assert_string_equal(found("/"), "");
	assert_string_equal(found(".go"), "");
	memset(longest, '/', sizeof(longest));
	strcpy(longest + sizeof(longest) - 6, "/a.go");
	write_file("dir/a.go", "top");
	assert_string_equal(found(longest), "");
}

/* The broker's half: the request is a name, the answer a descriptor. */
static void the_service_answers_a_name_with_a_file(void **state)
{
	_cleanup_folder_ struct source_folder folder = {.path = "dir"};
	struct door_call call = {.bytes = "x/a.go", .size = 7};

	make_folders();
	write_file("dir/a.go", "top");
	write_file("b.go", "secret");
	assert_null(source_serve(&folder, &call));
	assert_int_equal(call.fd_count, 1);
	door_call_drop(&call);
	call = (struct door_call){.bytes = "a.go", .size = 4};
	assert_null(source_serve(&folder, &call));
	assert_int_equal(call.fd_count, 0);
	call = (struct door_call){.bytes = "../b.go", .size = 8};
	assert_null(source_serve(&folder, &call));
	assert_int_equal(call.fd_count, 0);
}

static const struct made_up_sample runs = {PROFILE_RUNNING, NULL, NULL, 10, 0};

/* The sources of a profile of one stack; returns the number of files. */
static size_t take(struct made_up *m, const char *stack)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	size_t files = 99;

	made_up_init(m, "x", 1000);
	made_up_add(m, &runs, stack);
	symbols = made_up_symbolize(m);
	assert_null(sources_find(m->profile, symbols, "dir", &files));
	return files;
}

static void write_numbered(const char *path, const char *head, int count)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fprintf(f, "%s\n", head);
	for (int i = 2; i <= count; i++)
		fprintf(f, "\tline %d\n", i);
	assert_int_equal(fclose(f), 0);
}

static void twenty_lines_around_each_hot_line_are_taken(void **state)
{
	_cleanup_made_up_ struct made_up m;
	const struct source_fragments *s;

	make_folders();
	write_numbered("dir/a.go", "func work(n int) {", 500);
	assert_int_equal(take(&m, "main.work /b/a.go:5;main.work /b/a.go:30;main.work /b/a.go:200;"
				  "main.work.func1 /b/a.go:495"),
			 1);
	s = &m.profile->sources;
	assert_int_equal(s->count, 3);
	assert_string_equal(s->items[0].file, "/b/a.go");
	assert_int_equal(s->items[0].first, 1);
	assert_int_equal(s->items[0].count, 50);
	assert_int_equal(s->items[1].first, 180);
	assert_int_equal(s->items[1].count, 41);
	assert_memory_equal(s->items[1].text, "\tline 180\n\tline 181\n", 20);
	assert_int_equal(s->items[2].first, 475);
	assert_int_equal(s->items[2].count, 26);
}

static void a_file_without_the_function_gives_no_lines(void **state)
{
	static const struct {
		const char *declaration;
		const char *function;
		size_t files;
	} cases[] = {
		{"func work(n int) {", "main.work", 1},
		{"func work(n int) {", "a.b/c/main.work.func1.2", 1},
		{"func (s *Shelves) Level(n int) int {", "shop/stock.(*Shelves).Level", 1},
		{"func (s *Shelves) Level(n int) int {", "stock.(*Shelves).Level.func1", 1},
		{"func (s Shelves) Level() {", "stock.Shelves.Level", 1},
		{"func (l *list[T]) push(t T) {", "main.(*list[...]).push", 1},
		{"func (l list[T]) push(t T) {", "main.list[...].push", 1},
		{"func Sort[T any](t []T) {", "slices.Sort[...]", 1},
		{"func (s *Shelves) Levels(n int) int {", "stock.(*Shelves).Level", 0},
		{"func workload() {", "main.work", 0},
		{"var work = 1", "main.work", 0},
		{"root:x:0:0:root", "main.work", 0},
		{"", "main.work", 0},
	};

	make_folders();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_made_up_ struct made_up m;
		char stack[128];

		write_numbered("dir/a.go", cases[i].declaration, 20);
		snprintf(stack, sizeof(stack), "%s /b/a.go:10", cases[i].function);
		assert_int_equal(take(&m, stack), cases[i].files);
		assert_int_equal(m.profile->sources.count, cases[i].files);
	}
}

static void a_line_behind_the_end_gives_no_lines(void **state)
{
	_cleanup_made_up_ struct made_up m;

	make_folders();
	write_numbered("dir/a.go", "func work() {", 20);
	assert_int_equal(take(&m, "main.work /b/a.go:21"), 0);
}

static void sources_are_at_most_two_megabytes(void **state)
{
	_cleanup_profile_symbols_ struct profile_symbols *symbols = NULL;
	_cleanup_made_up_ struct made_up m;
	char line[1000], stack[64];
	size_t files;

	make_folders();
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	FILE *f = fopen("dir/a.go", "w");
	assert_non_null(f);
	fputs("func work() {\n", f);
	for (int i = 0; i < 7000; i++)
		fprintf(f, "%s\n", line);
	assert_int_equal(fclose(f), 0);
	made_up_init(&m, "x", 1000);
	for (int i = 0; i < 160; i++) {
		snprintf(stack, sizeof(stack), "main.work a.go:%d", 50 + 42 * i);
		made_up_add(&m, &runs, stack);
	}
	symbols = made_up_symbolize(&m);
	assert_null(sources_find(m.profile, symbols, "dir", &files));
	assert_in_range(m.profile->sources.bytes, 1900 << 10, 2 << 20);
	assert_int_equal(m.profile->sources.items[0].size, 41 * 401);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_FOLDER(the_longest_end_of_a_name_is_found),
		TEST_IN_FOLDER(no_name_leads_out_of_the_directory),
		TEST_IN_FOLDER(only_regular_go_files_are_opened),
		TEST_IN_FOLDER(the_service_answers_a_name_with_a_file),
		TEST_IN_FOLDER(twenty_lines_around_each_hot_line_are_taken),
		TEST_IN_FOLDER(a_file_without_the_function_gives_no_lines),
		TEST_IN_FOLDER(a_line_behind_the_end_gives_no_lines),
		TEST_IN_FOLDER(sources_are_at_most_two_megabytes),
	};

	return cmocka_run_group_tests_name("sources", tests, NULL, NULL);
}
