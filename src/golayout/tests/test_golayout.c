#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unit_test.h"
#include "golayout/golayout.h"

static void every_known_minor_version_has_a_table(void **state)
{
	for (int minor = GOLAYOUT_MIN_MINOR; minor <= GOLAYOUT_MAX_MINOR; minor++)
		assert_non_null(golayout_table(minor, 0));
	assert_null(golayout_table(GOLAYOUT_MIN_MINOR - 1, 0));
	assert_null(golayout_table(GOLAYOUT_MAX_MINOR + 1, 0));
	assert_null(golayout_table(-1, 0));
}

/* Counted by hand in the structures of runtime/runtime2.go of these versions. */
static void tables_agree_with_the_source(void **state)
{
	assert_int_equal(golayout_table(17, 13)->g_gopc, 296);
	assert_int_equal(golayout_table(17, 13)->moduledata_gofunc, GOLAYOUT_ABSENT);
	assert_int_equal(golayout_table(22, 5)->g_status, 144);
	assert_int_equal(golayout_table(23, 5)->g_status, 152);
	assert_int_equal(golayout_table(25, 3)->m_curg, 184);
	assert_int_equal(golayout_table(25, 3)->g_sched_bp, 56 + 40);
	assert_int_equal(golayout_table(27, 2)->g_labels, 352);
	assert_int_equal(golayout_table(27, 2)->moduledata_gofunc, 344);
	assert_int_equal(golayout_table(26, 0)->func_id_wrapper, 23);
}

static void a_patch_release_may_have_a_table_of_its_own(void **state)
{
	assert_int_equal(golayout_table(23, 11)->m_alllink, 328);
	assert_int_equal(golayout_table(23, 12)->m_alllink, 352);
	assert_int_equal(golayout_table(24, 5)->m_syscalltick, 740);
	assert_int_equal(golayout_table(24, 6)->m_syscalltick, 764);
	assert_ptr_equal(golayout_table(24, 6), golayout_table(24, 99));
}

static void every_field_lies_in_its_structure(void **state)
{
	for (int minor = GOLAYOUT_MIN_MINOR; minor <= GOLAYOUT_MAX_MINOR; minor++) {
		const struct golayout_numbers *n = golayout_table(minor, 99);

		assert_in_range(n->g_labels, n->g_startpc + 1, n->g_size - 8);
		assert_in_range(n->m_syscalltick, n->m_lockedg + 1, n->m_size - 4);
		assert_in_range(n->moduledata_next, 500, n->moduledata_size - 8);
	}
}

/* The result of golayout_open() for a binary that claims this version; this test's own program
 * serves as the binary, which has no Go in it. */
static struct error *open_version(const char *version)
{
	_cleanup_image_ struct image *img = calloc(1, sizeof(*img));
	_cleanup_golayout_ struct golayout *lay = NULL;
	struct error *err;

	assert_non_null(img);
	err = elf_file_open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "app", &img->elf);
	if (!err)
		err = buildinfo_of_version(version, &img->info);
	assert_null(err);
	img->machine = elf_file_machine(img->elf);
	return golayout_open(img, NULL, &lay);
}

static void assert_refused(const char *version, const char *message)
{
	_cleanup_error_ struct error *err = open_version(version);

	assert_non_null(err);
	assert_int_equal(err->code, ERROR_UNSUPPORTED);
	if (!strstr(err->message, message))
		fail_msg("\"%s\" does not say \"%s\"", err->message, message);
}

static void other_versions_are_refused_by_name(void **state)
{
	char newer[32], message[128];

	snprintf(newer, sizeof(newer), "go1.%d.0", GOLAYOUT_MAX_MINOR + 1);
	snprintf(message, sizeof(message),
		 "%s, which is too new; this gospect supports Go 1.17 to 1.%d", newer,
		 GOLAYOUT_MAX_MINOR);
	assert_refused(newer, message);
	assert_refused("go1.16.15", "go1.16.15, which is too old; gospect supports Go 1.17 to 1.");
	assert_refused("go1.99rc1", "too new");
	assert_refused("devel go1.28-abcdef Mon",
		       "\"devel go1.28-abcdef Mon\", which is not a release");
	assert_refused("go1.27-devel_abcdef", "\"go1.27-devel_abcdef\", which is not a release");
}

static void an_experiment_without_dwarf_is_refused(void **state)
{
	assert_refused("go1.24.4 X:staticlockranking", "a GOEXPERIMENT, which may move");
	assert_refused("go1.24.4 X:boringcrypto,staticlockranking",
		       "a GOEXPERIMENT, which may move");
}

/* They are accepted up to the function table, which this test's program does not have. */
static void vendors_suffixes_and_harmless_experiments_are_accepted(void **state)
{
	assert_refused("go1.22.5 (Red Hat 1.22.5-1.el9)", "function table");
	assert_refused("go1.21.13-custom", "function table");
	assert_refused("go1.24.4 X:boringcrypto", "function table");
	assert_refused("go1.27rc1", "function table");
}

/* mheap is padded to cache lines, of 64 bytes on amd64 and 128 on arm64. */
static void numbers_behind_a_padding_are_those_of_the_machine(void **state)
{
	for (int minor = GOLAYOUT_MIN_MINOR; minor <= GOLAYOUT_MAX_MINOR; minor++) {
		const struct golayout_numbers *table = golayout_table(minor, 99);
		struct golayout_numbers amd64 = *table, arm64 = *table;

		golayout_adapt(&amd64, minor, 99, MACHINE_AMD64);
		golayout_adapt(&arm64, minor, 99, MACHINE_ARM64);
		assert_memory_equal(&amd64, table, sizeof(amd64));
		assert_int_equal(arm64.heap_arenas - amd64.heap_arenas, minor >= 22 ? 64 : 0);
		assert_int_equal(arm64.heap_mcache_bytes > amd64.heap_mcache_bytes, minor >= 20);
		assert_int_equal(arm64.heap_all_spans, amd64.heap_all_spans);
		assert_int_equal(arm64.g_goid, amd64.g_goid);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_known_minor_version_has_a_table),
		cmocka_unit_test(tables_agree_with_the_source),
		cmocka_unit_test(a_patch_release_may_have_a_table_of_its_own),
		cmocka_unit_test(every_field_lies_in_its_structure),
		cmocka_unit_test(other_versions_are_refused_by_name),
		cmocka_unit_test(an_experiment_without_dwarf_is_refused),
		cmocka_unit_test(vendors_suffixes_and_harmless_experiments_are_accepted),
		cmocka_unit_test(numbers_behind_a_padding_are_those_of_the_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
