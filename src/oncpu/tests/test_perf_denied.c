#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "base/unit_test.h"
#include "oncpu/perf_denied.h"

#define ALL ((1ull << 41) - 1)

static void expect(struct error *err, const char *cause, const char *remedy)
{
	_cleanup_error_ struct error *owned = err;

	assert_non_null(owned);
	if (!strstr(owned->message, cause) || !strstr(owned->message, remedy))
		fail_msg("'%s' and '%s' should be in: %s", cause, remedy, owned->message);
}

static void levels_that_ask_for_a_capability_are_named(void **state)
{
	struct access_self self = {.uid = 1000, .bounding = ALL};

	expect(perf_explain(&self, 3, EACCES), "perf_event_paranoid is 3", "with sudo");
	expect(perf_explain(&self, 4, EACCES), "perf_event_paranoid is 4", "set it to 2");
	self.bounding = 0xa80425fb;
	expect(perf_explain(&self, 4, EACCES), "perf_event_paranoid is 4", "--cap-add PERFMON");
}

static void a_seccomp_filter_is_named_only_when_there_is_one(void **state)
{
	struct access_self self = {.filtered = true, .bounding = 0xa80425fb};

	expect(perf_explain(&self, 4, EPERM), "seccomp", "seccomp=unconfined");
	expect(perf_explain(&self, 2, ENOSYS), "seccomp", "--cap-add PERFMON");
	expect(perf_explain(&self, 4, EACCES), "perf_event_paranoid is 4", "PERFMON");
	self.filtered = false;
	expect(perf_explain(&self, 4, EPERM), "perf_event_paranoid is 4", "PERFMON");
	expect(perf_explain(&self, 2, ENOSYS), "no perf events", "");
}

static void a_level_is_not_blamed_for_what_it_allows(void **state)
{
	struct access_self self = {.uid = 1000, .bounding = ALL};

	expect(perf_explain(&self, 2, EACCES), "security module", "with sudo");
	self.capabilities = 1ull << CAP_PERFMON;
	expect(perf_explain(&self, 4, EACCES), "security module", "on the host");
}

static void a_capability_of_an_inner_user_namespace_does_not_count(void **state)
{
	struct access_self self = {.capabilities = ALL, .bounding = ALL, .inner_user = true};

	expect(perf_explain(&self, 3, EACCES), "outside this user namespace", "on the host");
}

static void the_kernel_is_not_to_be_seen_at_level_2(void **state)
{
	struct access_self self = {.uid = 1000, .bounding = ALL};

	expect(perf_explain_kernel(&self, 2, EACCES), "perf_event_paranoid is 2", "set it to 1");
	expect(perf_explain_kernel(&self, 3, EACCES), "perf_event_paranoid is 3", "with sudo");
	self.inner_user = true;
	expect(perf_explain_kernel(&self, 2, EACCES), "user namespace", "on the host");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_that_ask_for_a_capability_are_named),
		cmocka_unit_test(a_seccomp_filter_is_named_only_when_there_is_one),
		cmocka_unit_test(a_level_is_not_blamed_for_what_it_allows),
		cmocka_unit_test(a_capability_of_an_inner_user_namespace_does_not_count),
		cmocka_unit_test(the_kernel_is_not_to_be_seen_at_level_2),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
