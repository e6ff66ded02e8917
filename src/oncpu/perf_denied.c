#include "oncpu/perf_denied.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/door.h"

#define DENIED "cannot sample running threads: permission denied: "

int perf_paranoid_level(void)
{
	_cleanup_fclose_ FILE *f = door_fopen("/proc/sys/kernel/perf_event_paranoid");
	int level = 2;

	return f && fscanf(f, "%d", &level) == 1 ? level : 2;
}

static bool may_perf(const struct access_self *self)
{
	return self->capabilities >> CAP_PERFMON & 1 || self->capabilities >> CAP_SYS_ADMIN & 1;
}

/* In an inner user namespace capabilities have no effect; the levels are the host's. */
static struct error *explain_level(const struct access_self *self, int level)
{
	if (self->inner_user)
		return error_format(ERROR_DENIED,
				    DENIED "kernel.perf_event_paranoid is %d, which requires "
					   "CAP_PERFMON outside this user namespace; run "
					   "gospect on the host, or set it to 2 there",
				    level);
	return error_format(ERROR_DENIED,
			    DENIED "kernel.perf_event_paranoid is %d, which requires CAP_PERFMON; "
				   "run gospect %s, or set it to 2 on the host",
			    level, access_remedy(self, CAP_PERFMON));
}

struct error *perf_explain(const struct access_self *self, int level, int err)
{
	bool counts = may_perf(self) && !self->inner_user;

	/* The kernel itself refuses with EACCES. It has the call unless it was built without perf
	 * events. */
	if (self->filtered && (err == EPERM || err == ENOSYS))
		return error_format(ERROR_DENIED,
				    DENIED "a seccomp filter forbids perf_event_open; run gospect "
					   "without it or with CAP_PERFMON, which Docker's filter "
					   "accepts (docker run --cap-add PERFMON, or "
					   "--security-opt seccomp=unconfined; Kubernetes: "
					   "seccompProfile Unconfined)");
	if (err == ENOSYS)
		return error_format(ERROR_UNSUPPORTED, "this kernel has no perf events");
	if (level > 2 && !counts)
		return explain_level(self, level);
	return error_format(ERROR_DENIED,
			    DENIED "the kernel or a security module forbids it (kernel."
				   "perf_event_paranoid is %d); run gospect %s",
			    level, counts ? "on the host" : access_remedy(self, CAP_PERFMON));
}

struct error *perf_explain_kernel(const struct access_self *self, int level, int err)
{
	bool counts = may_perf(self) && !self->inner_user;

	if (level != 2 || counts || self->filtered)
		return perf_explain(self, level, err);
	if (self->inner_user)
		return error_format(
			ERROR_DENIED,
			"cannot sample the kernel: permission denied: kernel.perf_event_paranoid "
			"is 2, "
			"which requires CAP_PERFMON outside this user namespace; run "
			"gospect on the host, or set it to 1 there");
	return error_format(
		ERROR_DENIED,
		"cannot sample the kernel: permission denied: kernel.perf_event_paranoid is 2, "
		"which "
		"requires CAP_PERFMON; run gospect %s, set it to 1 on the host, or omit "
		"--kernel",
		access_remedy(self, CAP_PERFMON));
}

struct error *perf_kernel_denied(int err)
{
	struct access_self self;

	access_self_read(&self);
	return perf_explain_kernel(&self, perf_paranoid_level(), err);
}

struct error *perf_denied(int err)
{
	struct access_self self;

	access_self_read(&self);
	return perf_explain(&self, perf_paranoid_level(), err);
}
