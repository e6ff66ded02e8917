#include "sandbox/capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct error *capabilities_keep(uint64_t mask)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	/* Ends with the first number that the kernel does not know. */
	for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
		if (!(mask >> i & 1))
			prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	if (syscall(SYS_capget, &head, data))
		return error_errno(ERROR_FAILED, errno, "cannot read the capabilities of gospect");
	for (int i = 0; i < 2; i++) {
		data[i].effective &= mask >> (32 * i);
		data[i].permitted &= mask >> (32 * i);
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &head, data))
		return error_errno(ERROR_FAILED, errno, "cannot drop capabilities");
	return NULL;
}
