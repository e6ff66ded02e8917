/* Which files gospect opens that a target has made for it. */
#include "inject/memfile.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/unit_test.h"

#define NAME "gospect-data"
#define SIZE 8192

static int made(const char *name, unsigned int flags)
{
	int file = memfd_create(name, MFD_CLOEXEC | flags);

	assert_true(file >= 0);
	return file;
}

static struct error *adopt(int theirs, int *ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", theirs);
	return memfile_adopt(path, NAME, getuid(), ret);
}

static void assert_denied(int theirs)
{
	int ours = -1;
	struct error *err = adopt(theirs, &ours);

	assert_non_null(err);
	assert_int_equal(err->code, ERROR_DENIED);
	assert_int_equal(ours, -1);
	error_destroy(err);
}

static void a_new_file_in_memory_is_opened_and_sealed(void **state)
{
	_cleanup_close_ int theirs = made(NAME, MFD_ALLOW_SEALING), ours = -1;

	assert_null(adopt(theirs, &ours));
	assert_null(memfile_resize(ours, SIZE));
	assert_null(memfile_seal(ours, SIZE, F_SEAL_WRITE));
	assert_int_equal(ftruncate(theirs, 0), -1);
	assert_int_equal(pwrite(theirs, "x", 1, 0), -1);
}

static void any_other_file_is_refused(void **state)
{
	_cleanup_close_ int other_name = made("other", MFD_ALLOW_SEALING);
	_cleanup_close_ int longer = made(NAME "x", MFD_ALLOW_SEALING);
	_cleanup_close_ int used = made(NAME, MFD_ALLOW_SEALING);
	_cleanup_close_ int unsealable = made(NAME, 0);
	_cleanup_close_ int sealed = made(NAME, MFD_ALLOW_SEALING);
	_cleanup_close_ int device = open("/dev/null", O_RDWR | O_CLOEXEC);
	_cleanup_close_ int folder = open("/", O_PATH | O_CLOEXEC);

	assert_int_equal(ftruncate(used, 1), 0);
	assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_denied(other_name);
	assert_denied(longer);
	assert_denied(used);
	assert_denied(unsealable);
	assert_denied(sealed);
	assert_denied(device);
	assert_denied(folder);
	assert_denied(1000);
}

/* The link of a deleted file shows its name, which anybody may choose. */
static void a_deleted_file_of_that_name_is_refused(void **state)
{
	char folder[] = "/tmp/memfile.XXXXXX", path[64];
	_cleanup_close_ int file = -1;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/memfd:%s", folder, NAME);
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	assert_denied(file);
	unlink(path);
	rmdir(folder);
	assert_denied(file);
}

static void a_file_of_another_user_is_refused(void **state)
{
	_cleanup_close_ int theirs = made(NAME, MFD_ALLOW_SEALING);
	int ours = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", theirs);
	assert_true(error_dropped(memfile_adopt(path, NAME, getuid() + 1, &ours)));
	assert_int_equal(ours, -1);
}

static void a_size_that_was_changed_before_the_seal_is_refused(void **state)
{
	_cleanup_close_ int theirs = made(NAME, MFD_ALLOW_SEALING), ours = -1;

	assert_null(adopt(theirs, &ours));
	assert_null(memfile_resize(ours, SIZE));
	assert_int_equal(ftruncate(theirs, SIZE / 2), 0);
	assert_true(error_dropped(memfile_seal(ours, SIZE, 0)));
}

static void a_part_that_is_mapped_elsewhere_or_is_anothers_is_refused(void **state)
{
	_cleanup_close_ int file = made(NAME, MFD_ALLOW_SEALING), other = made(NAME, 0);
	_cleanup_target_ struct target *t = NULL;
	uint64_t at;

	assert_int_equal(ftruncate(file, SIZE), 0);
	at = (uint64_t)mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
	assert_null(target_open_process(getpid(), &t));
	assert_null(memfile_check_mapped(t, file, at, SIZE, 0));
	assert_null(memfile_check_mapped(t, file, at + 4096, 4096, 4096));
	assert_true(error_dropped(memfile_check_mapped(t, file, at, 2 * SIZE, 0)));
	assert_true(error_dropped(memfile_check_mapped(t, file, at, SIZE, 4096)));
	assert_true(error_dropped(memfile_check_mapped(t, other, at, SIZE, 0)));
	assert_true(error_dropped(memfile_check_mapped(t, file, (uint64_t)&t, 8, 0)));
	munmap((void *)at, SIZE);
}

static uint64_t present(int file)
{
	struct stat st;

	assert_int_equal(fstat(file, &st), 0);
	return st.st_blocks * 512;
}

static void reading_what_was_never_written_takes_no_memory(void **state)
{
	_cleanup_close_ int file = made(NAME, MFD_ALLOW_SEALING);
	uint8_t bytes[SIZE];

	assert_int_equal(ftruncate(file, SIZE), 0);
	assert_int_equal(pwrite(file, "x", 1, 4097), 1);
	assert_int_equal(present(file), 4096);
	memset(bytes, 0xff, sizeof(bytes));
	memfile_read(file, 1, bytes, SIZE);
	assert_int_equal(bytes[0], 0);
	assert_int_equal(bytes[4096], 'x');
	assert_int_equal(bytes[SIZE - 1], 0); /* behind the end */
	assert_int_equal(present(file), 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_file_in_memory_is_opened_and_sealed),
		cmocka_unit_test(any_other_file_is_refused),
		cmocka_unit_test(a_deleted_file_of_that_name_is_refused),
		cmocka_unit_test(a_file_of_another_user_is_refused),
		cmocka_unit_test(a_size_that_was_changed_before_the_seal_is_refused),
		cmocka_unit_test(a_part_that_is_mapped_elsewhere_or_is_anothers_is_refused),
		cmocka_unit_test(reading_what_was_never_written_takes_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
