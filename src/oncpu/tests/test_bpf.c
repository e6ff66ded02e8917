#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "base/unit_test.h"
#include "oncpu/bpf.h"

#define ALL ((1ull << 41) - 1)

enum { FIRST, SECOND };

static struct bpf_code code;

static int set_up(void **state)
{
	memset(&code, 0, sizeof(code));
	return 0;
}

static void jumps_lead_to_the_instruction_behind_their_place(void **state)
{
	bpf_jump_if(&code, BPF_JEQ, 1, 7, SECOND);
	bpf_jump(&code, FIRST);
	bpf_set(&code, 0, 3);
	bpf_place(&code, FIRST);
	bpf_set(&code, 0, 4);
	bpf_place(&code, SECOND);
	bpf_exit(&code);
	assert_int_equal(code.count, 5);
	assert_int_equal(code.insns[0].off, 3);
	assert_int_equal(code.insns[1].off, 1);
	assert_false(code.is_wrong);
}

static void a_jump_to_nowhere_is_wrong(void **state)
{
	int fd = -1;
	_cleanup_error_ struct error *err = NULL;

	bpf_jump(&code, FIRST);
	bpf_exit(&code);
	assert_true(code.is_wrong);
	err = bpf_program_open(&code, BPF_PROG_TYPE_PERF_EVENT, &fd);
	assert_non_null(err);
	assert_int_equal(fd, -1);
}

static void a_program_that_is_too_long_is_wrong(void **state)
{
	for (int i = 0; i < BPF_MAX_CODE; i++)
		bpf_set(&code, 0, i);
	bpf_exit(&code);
	assert_true(code.is_wrong);
}

static void expect(struct error *err, const char *cause, const char *remedy)
{
	_cleanup_error_ struct error *owned = err;

	assert_non_null(owned);
	if (!strstr(owned->message, cause) || !strstr(owned->message, remedy))
		fail_msg("'%s' and '%s' should be in: %s", cause, remedy, owned->message);
}

static void denied_load_names_the_capabilities(void **state)
{
	struct access_self self = {.uid = 1000, .bounding = ALL};

	expect(bpf_explain(&self, EPERM), "CAP_BPF and CAP_PERFMON", "with sudo");
	self.bounding = 0xa80425fb;
	expect(bpf_explain(&self, EPERM), "CAP_BPF and CAP_PERFMON", "--cap-add BPF");
	self.capabilities = 1ull << CAP_BPF;
	expect(bpf_explain(&self, EPERM), "CAP_BPF and CAP_PERFMON", "--cap-add PERFMON");
	self.capabilities |= 1ull << CAP_PERFMON;
	expect(bpf_explain(&self, EPERM), "security module", "");
	self.filtered = true;
	expect(bpf_explain(&self, EPERM), "seccomp", "without the filter");
	self = (struct access_self){.capabilities = ALL, .inner_user = true};
	expect(bpf_explain(&self, EPERM), "user namespace", "on the host");
}

static void a_kernel_without_it_is_distinguished_from_a_filter(void **state)
{
	struct access_self self = {.capabilities = ALL};

	expect(bpf_explain(&self, ENOSYS), "no eBPF", "");
	expect(bpf_explain(&self, EINVAL), "rejects the eBPF program", "");
	self.filtered = true;
	expect(bpf_explain(&self, ENOSYS), "seccomp", "without the filter");
}

#define BPF_TEST(f) cmocka_unit_test_setup(f, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BPF_TEST(jumps_lead_to_the_instruction_behind_their_place),
		BPF_TEST(a_jump_to_nowhere_is_wrong),
		BPF_TEST(a_program_that_is_too_long_is_wrong),
		BPF_TEST(denied_load_names_the_capabilities),
		BPF_TEST(a_kernel_without_it_is_distinguished_from_a_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
