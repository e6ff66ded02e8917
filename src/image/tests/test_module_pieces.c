/* Which module is at an address: against a search through all of them, the newest first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit_test.h"
#include "image/modules.h"

struct given {
	uint64_t start, end;
	char path[16];
};

static uint64_t state_of_dice = 1;

static uint64_t dice(uint64_t sides)
{
	state_of_dice = state_of_dice * 6364136223846793005ull + 1442695040888963407ull;
	return (state_of_dice >> 33) % sides;
}

static void add(struct modules *m, struct given *g, uint64_t start, uint64_t size, size_t number)
{
	struct module_range range = {.path = g->path};

	g->start = range.start = start;
	g->end = range.end = start + size;
	snprintf(g->path, sizeof(g->path), "/x/%zu", number);
	assert_null(modules_add_file(m, &range, NULL));
}

static const char *expected(const struct given *given, size_t count, uint64_t address)
{
	for (size_t i = count; i-- > 0;)
		if (address >= given[i].start && address < given[i].end)
			return given[i].path;
	return NULL;
}

static void assert_all_found(struct modules *m, const struct given *given, size_t count,
			     uint64_t end)
{
	for (uint64_t address = 0; address < end; address++) {
		const char *path = expected(given, count, address), *file = NULL;
		const char *name = modules_function(m, address, &file);

		assert_int_equal(modules_have(m, address), path != NULL);
		assert_int_equal(name != NULL, path != NULL);
		if (path)
			assert_string_equal(file, path);
	}
}

/* Empty ranges, and ranges that share a beginning or an end. */
static void newest_piece_at_an_address_wins(void **state)
{
	enum { COUNT = 1500, END = 20000 };
	struct given *given = calloc(COUNT, sizeof(*given));

	assert_non_null(given);
	for (int round = 0; round < 6; round++) {
		_cleanup_modules_ struct modules *m = NULL;

		assert_null(modules_of_files(MACHINE_AMD64, &m));
		for (size_t i = 0; i < COUNT; i++) {
			add(m, &given[i], dice(END / 8) * 8, dice(round ? 40 : 4000), i);
			if (i % 400 == 30 || i + 1 == COUNT)
				assert_all_found(m, given, i + 1, END);
		}
	}
	free(given);
}

/* A program made its mappings so that the one that is asked for would come last in each search. */
static void thousands_are_found_as_fast_as_few(void **state)
{
	enum { COUNT = 60000, LOOKUPS = 1000000 };
	struct given *given = calloc(COUNT, sizeof(*given));
	_cleanup_modules_ struct modules *m = NULL;

	assert_non_null(given);
	assert_null(modules_of_files(MACHINE_AMD64, &m));
	for (size_t i = 0; i < COUNT; i++)
		add(m, &given[i], (i + 1) * 8192, 4096, i);
	for (size_t i = 0; i < LOOKUPS; i++) {
		size_t k = i % 1000;
		const char *file = NULL;

		assert_false(modules_have(m, k * 8192 + 4096));
		assert_non_null(modules_function(m, given[k].start + 1, &file));
		assert_string_equal(file, given[k].path);
	}
	free(given);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newest_piece_at_an_address_wins),
		cmocka_unit_test(thousands_are_found_as_fast_as_few),
	};

	return cmocka_run_group_tests_name("modules", tests, NULL, NULL);
}
