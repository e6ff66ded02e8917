#include "inject/breakpoint.h"

#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>

/* int3 */
const struct machine_code breakpoint_code = {1, {0xcc}};
/* jmp to itself */
const struct machine_code breakpoint_loop = {2, {0xeb, 0xfe}};

bool breakpoint_is_at(pid_t id, uint64_t address)
{
	struct user_regs_struct u;

	return !ptrace(PTRACE_GETREGS, id, NULL, &u) && u.rip == address + breakpoint_code.size;
}

bool breakpoint_go_to(pid_t id, uint64_t address)
{
	struct user_regs_struct u;

	if (ptrace(PTRACE_GETREGS, id, NULL, &u))
		return false;
	u.rip = address;
	return !ptrace(PTRACE_SETREGS, id, NULL, &u);
}
