#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/test_folder.h"
#include "base/unit_test.h"
#include "gotrace/trace_file.h"

static void assert_file(const char *path, const char *expected)
{
	char text[256] = "";
	_cleanup_fclose_ FILE *file = fopen(path, "r");

	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	assert_string_equal(text, expected);
}

static struct trace_file *open_file(uint64_t flight_ns, uint64_t max_bytes)
{
	static const char *const endings[] = {".trace", NULL};
	struct trace_file_options options = {.path = flight_ns ? "t.trace" : "t",
					     .endings = endings,
					     .header = "head|",
					     .header_size = 5,
					     .flight_ns = flight_ns,
					     .max_bytes = max_bytes};
	struct trace_file *file;

	assert_null(trace_file_open(&options, &file));
	return file;
}

static void a_file_grows_generation_by_generation(void **state)
{
	_cleanup_trace_file_ struct trace_file *file = open_file(0, 1000);

	assert_null(trace_file_add(file, "one|", 4, 10));
	assert_file("t.partial", "head|one|");
	assert_null(trace_file_add(file, "two|", 4, 20));
	assert_int_equal(trace_file_size(file), 13);
	assert_int_equal(trace_file_began(file), 10);
	assert_null(trace_file_commit(file));
	assert_file("t", "head|one|two|");
}

static void a_file_says_when_it_is_full(void **state)
{
	_cleanup_trace_file_ struct trace_file *file = open_file(0, 20);

	assert_false(trace_file_is_full(file, 15));
	assert_true(trace_file_is_full(file, 16));
}

static const char *write_file(struct trace_file *file)
{
	const char *path = NULL;

	assert_null(trace_file_write(file, "usr1", &path));
	return path;
}

/* As "t-20261124-160824-2-usr1.trace", of a time between these two. */
static void assert_name(const char *name, time_t from, time_t to, const char *end)
{
	struct tm tm = {.tm_isdst = -1};
	const char *rest = strptime(name, "t-%Y%m%d-%H%M%S", &tm);
	time_t when = mktime(&tm);

	assert_non_null(rest);
	assert_string_equal(rest, end);
	assert_true(from <= when && when <= to);
}

static void an_incident_takes_no_others_name(void **state)
{
	_cleanup_trace_file_ struct trace_file *file = open_file(100, 1000);
	time_t from = time(NULL);
	char first[64], second[64], next[64];

	assert_null(trace_file_add(file, "one|", 4, 1));
	do {
		from = time(NULL);
		snprintf(first, sizeof(first), "%s", write_file(file));
		/* The next name is a symbolic link to a file of the test. */
		snprintf(next, sizeof(next), "%.17s-2-usr1.trace", first);
		assert_int_equal(symlink("victim", next), 0);
		assert_null(trace_file_add(file, "two|", 4, 2));
		snprintf(second, sizeof(second), "%s", write_file(file));
	} while (time(NULL) != from);
	assert_name(first, from, from, "-usr1.trace");
	assert_name(second, from, from, "-3-usr1.trace");
	assert_file(first, "head|one|");
	assert_file(second, "head|one|two|");
	assert_int_not_equal(access("victim", F_OK), 0);
}

static void the_last_seconds_are_kept(void **state)
{
	_cleanup_trace_file_ struct trace_file *file = open_file(100, 1000);

	for (uint64_t ns = 50; ns <= 400; ns += 50) {
		char text[8];

		snprintf(text, sizeof(text), "%lu|", (unsigned long)ns);
		assert_null(trace_file_add(file, text, strlen(text), ns));
	}
	assert_file(write_file(file), "head|300|350|400|");
	assert_null(trace_file_add(file, "450|", 4, 450));
	assert_file(write_file(file), "head|350|400|450|");
	assert_int_not_equal(access("t.trace", F_OK), 0);
}

static void kept_generations_are_bounded(void **state)
{
	_cleanup_trace_file_ struct trace_file *file = open_file(1000000, 15);

	for (uint64_t ns = 1; ns <= 9; ns++)
		assert_null(trace_file_add(file, "abcd", 4, ns));
	assert_int_equal(trace_file_size(file), 8);
}

static void oversized_generation_leaves_no_file(void **state)
{
	_cleanup_trace_file_ struct trace_file *file = open_file(1000000, 15);

	assert_null(trace_file_add(file, "abcd", 4, 1));
	assert_null(trace_file_add(file, "much too much", 13, 2));
	assert_true(trace_file_is_outgrown(file));
	assert_int_equal(trace_file_size(file), 0);
	assert_int_equal(trace_file_began(file), 0);
	assert_null(trace_file_add(file, "efgh", 4, 3));
	assert_false(trace_file_is_outgrown(file));
	assert_file(write_file(file), "head|efgh");
}

static struct error *write_to_output(void)
{
	struct trace_file_options options = {.path = "-",
					     .header = "head|",
					     .header_size = 5,
					     .max_bytes = 1000};
	_cleanup_trace_file_ struct trace_file *file = NULL;
	struct rlimit before, limit;
	struct error *err = trace_file_open(&options, &file);

	if (err)
		return err;
	getrlimit(RLIMIT_FSIZE, &before);
	limit = (struct rlimit){20, before.rlim_max};
	setrlimit(RLIMIT_FSIZE, &limit);
	err = trace_file_add(file, "one, which is long|", 19, 20);
	setrlimit(RLIMIT_FSIZE, &before);
	return err;
}

static void existing_bytes_of_the_output_file_stay(void **state)
{
	int fd = open("t", O_CREAT | O_WRONLY | O_APPEND, 0600), output = dup(STDOUT_FILENO);
	struct error *err;

	assert_int_equal(write(fd, "the user's|", 11), 11);
	signal(SIGXFSZ, SIG_IGN);
	fflush(stdout);
	dup2(fd, STDOUT_FILENO);
	err = write_to_output();
	dup2(output, STDOUT_FILENO);
	close(output);
	close(fd);
	assert_non_null(err);
	error_destroy(err);
	assert_file("t", "the user's|head|one,");
}

/* The size limit of files stands for a full disk. */
static void full_disk_keeps_complete_generations(void **state)
{
	_cleanup_trace_file_ struct trace_file *file = open_file(0, 1000);
	struct rlimit before, limit;
	struct error *err;

	signal(SIGXFSZ, SIG_IGN);
	assert_null(trace_file_add(file, "one|", 4, 10));
	getrlimit(RLIMIT_FSIZE, &before);
	limit = (struct rlimit){12, before.rlim_max};
	setrlimit(RLIMIT_FSIZE, &limit);
	err = trace_file_add(file, "two, which is long|", 19, 20);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_non_null(err);
	error_destroy(err);
	assert_null(trace_file_commit(file));
	assert_file("t", "head|one|");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_FOLDER(a_file_grows_generation_by_generation),
		TEST_IN_FOLDER(a_file_says_when_it_is_full),
		TEST_IN_FOLDER(an_incident_takes_no_others_name),
		TEST_IN_FOLDER(the_last_seconds_are_kept),
		TEST_IN_FOLDER(kept_generations_are_bounded),
		TEST_IN_FOLDER(oversized_generation_leaves_no_file),
		TEST_IN_FOLDER(existing_bytes_of_the_output_file_stay),
		TEST_IN_FOLDER(full_disk_keeps_complete_generations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
