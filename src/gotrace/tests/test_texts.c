/* Texts that come and go. */
#include <stdio.h>
#include <string.h>

#include "base/unit_test.h"
#include "gotrace/texts.h"

static uint32_t add(struct texts *t, const char *text)
{
	return texts_add(t, text, strlen(text));
}

static int make(void **state)
{
	static struct texts texts;

	*state = &texts;
	return 0;
}

static int unmake(void **state)
{
	texts_release(*state);
	return 0;
}

static void a_text_is_kept_once(void **state)
{
	struct texts *t = *state;
	uint32_t a = add(t, "a"), b = add(t, "b");

	assert_int_not_equal(a, b);
	assert_int_equal(add(t, "a"), a);
	assert_int_equal(add(t, ""), 0);
	assert_string_equal(texts_get(t, a), "a");
	assert_string_equal(texts_get(t, 0), "");
	assert_string_equal(texts_get(t, 1000), "");
}

static void invalid_utf8_is_replaced(void **state)
{
	struct texts *t = *state;

	assert_string_equal(texts_get(t, add(t, "a\xff")), "a\xef\xbf\xbd");
	assert_string_equal(texts_get(t, texts_add(t, "a\0b", 3)), "a\xef\xbf\xbd"
								   "b");
}

static void a_sweep_forgets_what_nobody_marked(void **state)
{
	struct texts *t = *state;
	uint32_t pinned = add(t, "pinned"), kept, lost;

	texts_pin(t);
	kept = add(t, "kept");
	lost = add(t, "lost");
	texts_mark(t, kept);
	texts_mark(t, UINT32_MAX);
	texts_sweep(t);
	assert_string_equal(texts_get(t, pinned), "pinned");
	assert_string_equal(texts_get(t, kept), "kept");
	assert_string_equal(texts_get(t, lost), "");
	assert_int_equal(add(t, "new"), lost);
	assert_int_equal(add(t, "kept"), kept);
	texts_sweep(t);
	assert_string_equal(texts_get(t, kept), "");
	assert_int_equal(t->used, 1);
}

static void past_the_limit_texts_are_none_until_others_are_forgotten(void **state)
{
	struct texts *t = *state;
	char text[1024];

	memset(text, 'x', sizeof(text));
	for (uint64_t i = 0; i < 2 * TEXTS_MAX_BYTES / sizeof(text); i++) {
		memcpy(text, &(uint64_t){i | 0x0101010101010101}, sizeof(i));
		assert_int_not_equal(texts_add(t, text, sizeof(text)), TEXTS_FAILED);
	}
	assert_true(t->bytes <= TEXTS_MAX_BYTES);
	for (uint64_t i = 0; i < 2 * TEXTS_MAX; i++)
		texts_add(t, text, (size_t)snprintf(text, sizeof(text), "%lu", (unsigned long)i));
	assert_true(t->bytes <= TEXTS_MAX_BYTES && t->used <= TEXTS_MAX);
	assert_true(t->refused > 0);
	assert_true(texts_are_due(t));
	assert_int_equal(add(t, "one more"), 0);
	texts_sweep(t);
	assert_false(texts_are_due(t));
	assert_int_equal(t->bytes, 0);
	assert_string_equal(texts_get(t, add(t, "one more")), "one more");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_text_is_kept_once),
		TEST(invalid_utf8_is_replaced),
		TEST(a_sweep_forgets_what_nobody_marked),
		TEST(past_the_limit_texts_are_none_until_others_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
