#include "sandbox/outgoing.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sandbox/capabilities.h"
#include "sandbox/sandbox.h"
#include "sandbox/syscall_filter.h"

#define NOBODY 65534

/* Without CAP_SETUID, as in many containers, it stays root without capabilities. */
static void become_nobody(void)
{
	if (geteuid())
		return;
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY))
		return;
	if (setresuid(NOBODY, NOBODY, NOBODY))
		return;
}

struct error *outgoing_drop_privilege(void)
{
	const struct rlimit no_core = {0, 0};

	setrlimit(RLIMIT_CORE, &no_core);
	become_nobody();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return error_errno(ERROR_FAILED, errno, "cannot set no_new_privs");
	return capabilities_keep(0);
}

struct error *outgoing_confine(void)
{
	return sandbox_is_built() ? filter_install_network() : NULL;
}
