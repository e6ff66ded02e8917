#include "inject/thread_registers.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "inject/user_registers.h"

bool thread_registers_read(pid_t id, struct thread_registers *ret)
{
	struct user_regs_struct u;
	uint64_t mask, tls;
	struct iovec general = {&u, sizeof(u)}, pointer = {&tls, sizeof(tls)};

	if (ptrace(PTRACE_GETREGSET, id, NT_PRSTATUS, &general) ||
	    ptrace(PTRACE_GETREGSET, id, NT_ARM_TLS, &pointer) ||
	    ptrace(PTRACE_GETSIGMASK, id, sizeof(mask), &mask))
		return false;
	*ret = thread_registers_of(&u, mask);
	ret->tls = tls;
	return true;
}
