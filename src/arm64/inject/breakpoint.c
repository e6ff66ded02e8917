#include "inject/breakpoint.h"

#include <elf.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

/* brk 0 */
const struct machine_code breakpoint_code = {4, {0, 0, 0x20, 0xd4}};
/* b to itself */
const struct machine_code breakpoint_loop = {4, {0, 0, 0, 0x14}};

static bool get(pid_t id, struct user_regs_struct *ret)
{
	struct iovec to = {ret, sizeof(*ret)};

	return !ptrace(PTRACE_GETREGSET, id, NT_PRSTATUS, &to);
}

/* It stays at a brk. */
bool breakpoint_is_at(pid_t id, uint64_t address)
{
	struct user_regs_struct u;

	return get(id, &u) && u.pc == address;
}

bool breakpoint_go_to(pid_t id, uint64_t address)
{
	struct user_regs_struct u;
	struct iovec from = {&u, sizeof(u)};

	if (!get(id, &u))
		return false;
	u.pc = address;
	return !ptrace(PTRACE_SETREGSET, id, NT_PRSTATUS, &from);
}
