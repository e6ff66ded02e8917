/* The spool: what another gospect finds, in which order, and what goes when there is no room. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_folder.h"
#include "base/unit_test.h"
#include "push/spool.h"

#define HEAD 16
#define MB (1u << 20)

static struct spool opened(uint64_t most)
{
	struct spool s;
	struct error *err = spool_open(test_folder, "kind", most, &s);

	if (err)
		fail_msg("%s", err->message);
	return s;
}

/* The content of the oldest, which is then removed. */
static char *taken(struct spool *s)
{
	static char bytes[64];
	size_t size;
	uint64_t serial = spool_oldest(s)->serial;
	int fd = spool_open_oldest(s, &size);

	assert_true(fd >= 0 && size < sizeof(bytes));
	assert_int_equal(read(fd, bytes, sizeof(bytes)), size);
	bytes[size] = '\0';
	close(fd);
	spool_remove(s, serial);
	return bytes;
}

static void test_another_gospect_finds_all_in_order(void **state)
{
	struct spool s = opened(MB), other;
	struct error *err;
	struct stat st;

	assert_true(spool_add(&s, "one", 3) && spool_add(&s, "two", 3) &&
		    spool_add(&s, "three", 5));
	assert_string_equal(taken(&s), "one");
	assert_int_equal(fstatat(s.folder, spool_oldest(&s)->name, &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(fstat(s.folder, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);

	err = spool_open(test_folder, "kind", MB, &other);
	assert_non_null(strstr(err->message, "another gospect"));
	error_destroy(err);
	spool_close(&other);
	spool_close(&s);

	s = opened(MB);
	assert_int_equal(spool_count(&s), 2);
	assert_true(spool_add(&s, "four", 4));
	assert_string_equal(taken(&s), "two");
	assert_string_equal(taken(&s), "three");
	assert_string_equal(taken(&s), "four");
	assert_null(spool_oldest(&s));
	assert_int_equal(s.bytes, 0);
	assert_int_equal(s.dropped, 0);
	spool_close(&s);
}

static void test_the_oldest_go_when_it_is_full(void **state)
{
	struct spool s = opened(10 * (HEAD + 8));
	char text[9];

	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "%08d", i);
		assert_true(spool_add(&s, text, 8));
		assert_true(s.bytes <= s.most_bytes);
	}
	assert_int_equal(spool_count(&s), 10);
	assert_int_equal(s.dropped, 990);
	assert_string_equal(taken(&s), "00000990");
	assert_false(spool_add(&s, test_folder, s.most_bytes));
	assert_int_equal(s.dropped, 991);
	assert_int_equal(spool_count(&s), 9);
	spool_close(&s);
	/* A smaller limit holds for what is there. */
	s = opened(3 * (HEAD + 8));
	assert_int_equal(spool_count(&s), 3);
	assert_int_equal(s.dropped, 6);
	assert_string_equal(taken(&s), "00000997");
	spool_close(&s);
}

static void spoil(struct spool *s, size_t cut, const char *bytes)
{
	int fd = openat(s->folder, spool_oldest(s)->name, O_RDWR);

	if (bytes)
		assert_int_equal(pwrite(fd, bytes, strlen(bytes), HEAD), strlen(bytes));
	else
		assert_int_equal(ftruncate(fd, cut), 0);
	close(fd);
}

static void test_damaged_files_are_dropped_and_counted(void **state)
{
	struct spool s = opened(MB);
	size_t size;

	for (int i = 0; i < 5; i++)
		assert_true(spool_add(&s, "content", 7));
	spoil(&s, HEAD + 3, NULL);
	assert_int_equal(spool_open_oldest(&s, &size), -1);
	spoil(&s, 5, NULL);
	assert_int_equal(spool_open_oldest(&s, &size), -1);
	spoil(&s, 0, "CONTENT");
	assert_int_equal(spool_open_oldest(&s, &size), -1);
	unlinkat(s.folder, spool_oldest(&s)->name, 0);
	assert_int_equal(spool_open_oldest(&s, &size), -1);
	assert_int_equal(s.dropped, 4);
	assert_string_equal(taken(&s), "content");
	spool_close(&s);
}

static void test_links_and_other_files_are_left_alone(void **state)
{
	struct spool s = opened(MB);
	char name[SPOOL_NAME];
	size_t size;

	assert_true(spool_add(&s, "mine", 4));
	snprintf(name, sizeof(name), "%s", spool_oldest(&s)->name);
	assert_int_equal(renameat(s.folder, name, s.folder, "other"), 0);
	assert_int_equal(symlinkat("other", s.folder, name), 0);
	assert_int_equal(spool_open_oldest(&s, &size), -1);
	assert_int_equal(faccessat(s.folder, "other", F_OK, 0), 0);
	assert_int_equal(symlinkat("other", s.folder, name), 0);
	spool_close(&s);
	s = opened(MB);
	assert_int_equal(spool_count(&s), 0);
	assert_int_equal(faccessat(s.folder, "other", F_OK, 0), 0);
	spool_close(&s);
}

/* What stays when gospect is killed while it writes. */
static void test_what_is_not_complete_is_removed(void **state)
{
	struct spool s = opened(MB);
	char name[SPOOL_NAME], partial[SPOOL_NAME];

	assert_true(spool_add(&s, "whole", 5) && spool_add(&s, "half", 4));
	snprintf(name, sizeof(name), "%s", s.files[1].name);
	snprintf(partial, sizeof(partial), "%.49s.part", name);
	assert_int_equal(renameat(s.folder, name, s.folder, partial), 0);
	spool_close(&s);
	s = opened(MB);
	assert_int_equal(spool_count(&s), 1);
	assert_int_equal(faccessat(s.folder, partial, F_OK, 0), -1);
	assert_string_equal(taken(&s), "whole");
	spool_close(&s);
}

static void test_a_file_that_cannot_be_written_leaves_nothing(void **state)
{
	static char bytes[MB];
	struct rlimit before, little;
	struct spool s = opened(16 * MB);

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	little = before;
	little.rlim_cur = 1000;
	assert_true(spool_add(&s, "small", 5));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	assert_false(spool_add(&s, bytes, sizeof(bytes)));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	/* The older one made room, in vain. */
	assert_int_equal(s.failed, EFBIG);
	assert_int_equal(s.dropped, 2);
	assert_int_equal(spool_count(&s), 0);
	spool_close(&s);
	s = opened(MB);
	assert_int_equal(spool_count(&s), 0);
	assert_true(spool_add(&s, "again", 5));
	assert_string_equal(taken(&s), "again");
	spool_close(&s);
}

static void test_a_folder_that_others_may_write_to_is_refused(void **state)
{
	struct spool s;
	struct error *err;

	assert_int_equal(chmod(test_folder, 0777), 0);
	err = spool_open(test_folder, "kind", MB, &s);
	assert_non_null(err);
	assert_non_null(strstr(err->message, "other users can write"));
	error_destroy(err);
	spool_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_FOLDER(test_another_gospect_finds_all_in_order),
		TEST_IN_FOLDER(test_the_oldest_go_when_it_is_full),
		TEST_IN_FOLDER(test_damaged_files_are_dropped_and_counted),
		TEST_IN_FOLDER(test_links_and_other_files_are_left_alone),
		TEST_IN_FOLDER(test_what_is_not_complete_is_removed),
		TEST_IN_FOLDER(test_a_file_that_cannot_be_written_leaves_nothing),
		TEST_IN_FOLDER(test_a_folder_that_others_may_write_to_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
