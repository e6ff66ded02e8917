/* Texts of stacks beyond 4 GB, in memory that is never touched. */
#include <sys/mman.h>

#include "base/unit_test.h"
#include "dump/dump_text.c"

#define GB (1ull << 30)

static void a_text_beyond_4_gb_has_its_place(void **state)
{
	static const char first[] = "main.first", last[] = "main.last";
	struct texts texts = {.text = {.capacity = 9 * GB}};
	uint64_t a, b, c;
	char *memory = mmap(NULL, 9 * GB, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(memory != MAP_FAILED);
	texts.text.data = memory;
	strbuf_add(&texts.text, first, sizeof(first));
	assert_null(keep_place(&texts, 0, &a));
	texts.text.length = 4 * GB + 3;
	strbuf_add(&texts.text, last, sizeof(last));
	assert_null(keep_place(&texts, 4 * GB + 3, &b));
	texts.text.length = 8 * GB + 5;
	assert_null(keep_place(&texts, 0, &c));
	assert_string_equal(place_text(&texts, a), first);
	assert_int_equal(texts.places[a - 1].length, sizeof(first));
	assert_string_equal(place_text(&texts, b), last);
	assert_int_equal(texts.places[b - 1].length, sizeof(last));
	assert_ptr_equal(place_text(&texts, c), memory);
	assert_int_equal(texts.places[c - 1].length, 8 * GB + 5);
	assert_ptr_equal(texts.text.data, memory);
	free(texts.places);
	munmap(memory, 9 * GB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_beyond_4_gb_has_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
