#include <linux/capability.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/unit_test.h"
#include "image/kernel_symbols.h"

static struct kernel_symbols *read_text(const char *text)
{
	_cleanup_fclose_ FILE *f = fmemopen((void *)text, strlen(text), "r");
	struct kernel_symbols *k = NULL;

	assert_null(kernel_symbols_read(f, &k));
	return k;
}

static void an_address_is_in_the_function_before_it(void **state)
{
	_cleanup_kernel_symbols_ struct kernel_symbols *k =
		read_text("0000000000000000 A fixed_percpu_data\n"
			  "ffffffff81000000 T _stext\n"
			  "ffffffff81000040 t do_one\n"
			  "ffffffff81000080 D no_function\n"
			  "ffffffffc0000010 t of_module\t[ext4]\n"
			  "ffffffff81000100 T later\n");

	assert_non_null(k);
	assert_string_equal(kernel_symbols_function(k, 0xffffffff8100003f), "_stext_[k]");
	assert_string_equal(kernel_symbols_function(k, 0xffffffff81000040), "do_one_[k]");
	assert_string_equal(kernel_symbols_function(k, 0xffffffff81000090), "do_one_[k]");
	assert_string_equal(kernel_symbols_function(k, 0xffffffff81000100), "later_[k]");
	assert_string_equal(kernel_symbols_function(k, 0xffffffffc0000020), "of_module_[k]");
	assert_string_equal(kernel_symbols_function(k, 0xffffffff80000000), "[kernel]");
}

static void hidden_addresses_are_no_symbols(void **state)
{
	assert_null(read_text("0000000000000000 T _stext\n0000000000000000 t do_one\n"));
	assert_null(read_text("nonsense\n\nffffffff81000000\nffffffff81000000 T\n"));
}

static void expect(struct error *err, const char *cause, const char *remedy)
{
	assert_non_null(err);
	assert_int_equal(err->code, ERROR_DENIED);
	assert_non_null(strstr(err->message, cause));
	assert_non_null(strstr(err->message, remedy));
	error_destroy(err);
}

static void the_rule_that_hides_them_is_named(void **state)
{
	struct access_self self = {.uid = 1000, .bounding = ~0ull};

	expect(kernel_symbols_explain(&self, 2), "kptr_restrict is 2", "set it to 1");
	expect(kernel_symbols_explain(&self, 1), "CAP_SYSLOG", "with sudo");
	expect(kernel_symbols_explain(&self, 0), "perf_event_paranoid is above 1", "with sudo");
	self = (struct access_self){.uid = 0};
	expect(kernel_symbols_explain(&self, 0), "without CAP_SYSLOG", "--cap-add SYSLOG");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_is_in_the_function_before_it),
		cmocka_unit_test(hidden_addresses_are_no_symbols),
		cmocka_unit_test(the_rule_that_hides_them_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
