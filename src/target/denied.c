/* Which of the kernel's rules forbids us to read a process. Sources: ptrace(2), kernel/ptrace.c
 * (__ptrace_may_access), security/yama. */
#include <errno.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/ops.h"

static bool have_ptrace_capability(void)
{
	char value[128];

	return target_status_line(getpid(), "CapEff", value, sizeof(value)) &&
	       strtoull(value, NULL, 16) >> CAP_SYS_PTRACE & 1;
}

static int yama_scope(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	return f && fscanf(f, "%d", &scope) == 1 ? scope : 0;
}

static const char *user_name(uid_t uid, char *buffer, size_t size)
{
	struct passwd *entry = getpwuid(uid);

	if (entry)
		snprintf(buffer, size, "%s", entry->pw_name);
	else
		snprintf(buffer, size, "%u", uid);
	return buffer;
}

struct error *target_denied(pid_t pid, int err)
{
	long owner = target_status_number(pid, "Uid");
	char name[64];

	if (owner < 0)
		return error_format(ERROR_GONE, "process %d has exited", pid);
	if (yama_scope() == 3)
		return error_format(ERROR_DENIED,
				    "may not read process %d: kernel.yama.ptrace_scope is 3, which "
				    "forbids it to everybody until the next boot",
				    pid);
	if (have_ptrace_capability())
		return error_errno(ERROR_DENIED, err,
				   "may not read process %d although we have CAP_SYS_PTRACE: it "
				   "lies in another user namespace, or a security module forbids "
				   "it; "
				   "run gospect on the host",
				   pid);
	if ((uid_t)owner != geteuid())
		return error_format(ERROR_DENIED,
				    "may not read process %d: it belongs to %s; run gospect as "
				    "that "
				    "user or with sudo",
				    pid, user_name(owner, name, sizeof(name)));
	if (yama_scope() > 0)
		return error_format(ERROR_DENIED,
				    "may not read process %d: kernel.yama.ptrace_scope is %d, "
				    "which "
				    "allows it to parent processes only; run gospect with sudo",
				    pid, yama_scope());
	return error_errno(ERROR_DENIED, err,
			   "may not read process %d: it holds more capabilities than we do, or "
			   "made "
			   "itself undumpable; run gospect with sudo",
			   pid);
}
