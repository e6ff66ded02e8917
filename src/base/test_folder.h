/* A unit test in an empty directory of its own, which is removed when the test ends. For unit tests
 * only. */
#ifndef BASE_TEST_FOLDER_H
#define BASE_TEST_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char test_folder[32];

static inline int enter_test_folder(void **state)
{
	snprintf(test_folder, sizeof(test_folder), "/tmp/gospect-test-XXXXXX");
	return !mkdtemp(test_folder) || chdir(test_folder);
}

static inline int remove_test_file(const char *path, const struct stat *st, int type,
				   struct FTW *place)
{
	return remove(path);
}

static inline int leave_test_folder(void **state)
{
	return chdir("/") || nftw(test_folder, remove_test_file, 8, FTW_DEPTH | FTW_PHYS);
}

#define TEST_IN_FOLDER(name) \
	cmocka_unit_test_setup_teardown(name, enter_test_folder, leave_test_folder)

#endif
