/* Each of the kernel's rules against reading a process, including those of Yama, SELinux and
 * AppArmor, is distinguished from the others, with a remedy that works where gospect runs. */
#include <linux/capability.h>
#include <string.h>

#include "base/unit_test.h"
#include "target/access.h"

#define PTRACE (1ull << CAP_SYS_PTRACE)
#define ALL ((1ull << 41) - 1)

/* A user on a host, and a process of the same user. */
static struct access_question ordinary(void)
{
	return (struct access_question){
		.self = {.uid = 1000, .gid = 1000, .bounding = ALL},
		.object = {.pid = 7, .uids = {1000, 1000, 1000}, .gids = {1000, 1000, 1000}},
	};
}

/* Root in a container of Docker. */
static struct access_question contained(void)
{
	struct access_question q = {.self = {.capabilities = 0xa80425fb, .bounding = 0xa80425fb},
				    .object = {.pid = 7, .capabilities = 0xa80425fb}};

	q.self.inner_pid = true;
	return q;
}

static void expect_denied(struct error *err, const char *cause, const char *remedy)
{
	_cleanup_error_ struct error *owned = err;

	assert_non_null(owned);
	assert_int_equal(owned->code, ERROR_DENIED);
	assert_null(strchr(owned->message, '\n'));
	if (!strstr(owned->message, cause) || !strstr(owned->message, remedy))
		fail_msg("'%s' and '%s' should be in: %s", cause, remedy, owned->message);
}

static void yama_is_named_with_its_level(void **state)
{
	struct access_question q = ordinary();

	q.looked = true;
	q.yama = 1;
	expect_denied(access_explain(&q), "ptrace_scope is 1", "with sudo");
	q.yama = 2;
	expect_denied(access_explain(&q), "ptrace_scope is 2", "with sudo");
	q.yama = 3;
	expect_denied(access_explain(&q), "ptrace_scope is 3", "next boot");
	q = contained();
	q.looked = true;
	q.yama = 1;
	expect_denied(access_explain(&q), "ptrace_scope is 1", "--cap-add SYS_PTRACE");
}

static void remedies_omit_what_yama_forbids(void **state)
{
	struct access_question q = ordinary();

	q.self.uid = 2000;
	q.yama = 0;
	expect_denied(access_explain(&q), "belongs to", "as that user or with sudo");
	q.yama = 1;
	expect_denied(access_explain(&q), "belongs to", "; run gospect with sudo");
	q.yama = 3;
	expect_denied(access_explain(&q), "ptrace_scope is 3", "next boot");
}

static void yama_is_not_blamed_for_what_it_does_not_forbid(void **state)
{
	struct access_question q = ordinary();

	q.yama = 1;
	q.object.undumpable = true;
	expect_denied(access_explain(&q), "undumpable", "with sudo");
	q.object.uids[0] = q.object.uids[1] = q.object.uids[2] = 3987654321;
	expect_denied(access_explain(&q), "belongs to user 3987654321", "with sudo");
}

static void another_user_of_a_container_needs_the_capability(void **state)
{
	struct access_question q = contained();

	q.object.uids[0] = q.object.uids[1] = q.object.uids[2] = 3987654321;
	expect_denied(access_explain(&q), "root without CAP_SYS_PTRACE", "--cap-add SYS_PTRACE");
	q.self.uid = q.self.gid = 1000;
	expect_denied(access_explain(&q), "belongs to user 3987654321",
		      "as that user or with CAP_SYS");
}

static void sudo_is_no_remedy_where_it_does_not_work(void **state)
{
	struct access_question q = ordinary();

	q.object.undumpable = true;
	q.self.no_new_privs = true;
	expect_denied(access_explain(&q), "undumpable", "docker run --cap-add SYS_PTRACE");
	q.self.no_new_privs = false;
	q.self.bounding = ALL & ~PTRACE;
	expect_denied(access_explain(&q), "undumpable", "kubectl debug --profile=sysadmin");
}

static void ids_that_differ_are_distinguished_from_another_owner(void **state)
{
	struct access_question q = ordinary();

	q.object.gids[2] = 5;
	expect_denied(access_explain(&q), "user or group ids differ", "with sudo");
}

static void the_capability_that_is_missing_is_named(void **state)
{
	struct access_question q = ordinary();

	q.object.capabilities = 1ull << CAP_NET_BIND_SERVICE;
	expect_denied(access_explain(&q), "CAP_NET_BIND_SERVICE, which", "with sudo");
	q.object.capabilities |= 1ull << CAP_CHECKPOINT_RESTORE;
	expect_denied(access_explain(&q), "CAP_NET_BIND_SERVICE and others", "with sudo");
	q.object.capabilities = 1ull << CAP_CHECKPOINT_RESTORE;
	expect_denied(access_explain(&q), "CAP_CHECKPOINT_RESTORE", "with sudo");
	q.object.capabilities = 1ull << 63;
	expect_denied(access_explain(&q), "a new one", "with sudo");
}

static void root_of_an_inner_user_namespace_learns_it(void **state)
{
	struct access_question q = {.self = {.capabilities = ALL, .bounding = ALL}};

	q.self.inner_user = true;
	q.object.other_user_namespace = true;
	expect_denied(access_explain(&q), "has no effect", "on the host");
	q.object.other_user_namespace = false;
	q.object.uids[0] = 65534;
	expect_denied(access_explain(&q), "another user namespace", "on the host");
	q = ordinary();
	q.object.other_user_namespace = true;
	expect_denied(access_explain(&q), "another user namespace;", "on the host");
}

static void a_security_module_is_what_remains(void **state)
{
	struct access_question q = {.self = {.capabilities = ALL, .bounding = ALL}};

	expect_denied(access_explain(&q), "security module", "apparmor=unconfined");
	strcpy(q.self.confinement, "docker-default (enforce)");
	expect_denied(access_explain(&q), "forbids it to 'docker-default (enforce)'", "host");
	q = ordinary();
	q.looked = true;
	expect_denied(access_explain(&q), "security module", "apparmor=unconfined");
}

static void the_files_of_another_user_need_a_capability_of_their_own(void **state)
{
	struct access_question q = ordinary();

	q.looked = true;
	q.yama = 1;
	q.self.capabilities = PTRACE;
	q.object.uids[1] = 3987654321;
	expect_denied(access_explain(&q), "not CAP_DAC_READ_SEARCH", "--cap-add DAC_READ_SEARCH");
	q.self.capabilities |= 1ull << CAP_DAC_READ_SEARCH;
	expect_denied(access_explain(&q), "ptrace_scope is 1", "");
}

static void a_hidden_process_is_distinguished_from_a_missing_one(void **state)
{
	struct access_self self = ordinary().self, inner = contained().self;
	_cleanup_error_ struct error *none = access_explain_absent(&self, 7, false, "invisible");
	_cleanup_error_ struct error *outside = access_explain_absent(&inner, 7, false, "");

	expect_denied(access_explain_absent(&self, 7, true, "invisible"), "hidepid=invisible",
		      "with sudo");
	expect_denied(access_explain_absent(&inner, 7, true, "2"), "hidepid=2", "SYS_PTRACE");
	assert_int_equal(none->code, ERROR_GONE);
	assert_non_null(strstr(none->message, "no such process: 7"));
	assert_int_equal(outside->code, ERROR_GONE);
	assert_non_null(strstr(outside->message, "--pid=container:ID"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(yama_is_named_with_its_level),
		cmocka_unit_test(remedies_omit_what_yama_forbids),
		cmocka_unit_test(yama_is_not_blamed_for_what_it_does_not_forbid),
		cmocka_unit_test(another_user_of_a_container_needs_the_capability),
		cmocka_unit_test(sudo_is_no_remedy_where_it_does_not_work),
		cmocka_unit_test(ids_that_differ_are_distinguished_from_another_owner),
		cmocka_unit_test(the_capability_that_is_missing_is_named),
		cmocka_unit_test(root_of_an_inner_user_namespace_learns_it),
		cmocka_unit_test(a_security_module_is_what_remains),
		cmocka_unit_test(the_files_of_another_user_need_a_capability_of_their_own),
		cmocka_unit_test(a_hidden_process_is_distinguished_from_a_missing_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
