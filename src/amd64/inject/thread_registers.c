#include "inject/thread_registers.h"

#include <stddef.h>
#include <sys/ptrace.h>

#include "inject/user_registers.h"

bool thread_registers_read(pid_t id, struct thread_registers *ret)
{
	struct user_regs_struct u;
	uint64_t mask;

	if (ptrace(PTRACE_GETREGS, id, NULL, &u) ||
	    ptrace(PTRACE_GETSIGMASK, id, sizeof(mask), &mask))
		return false;
	*ret = thread_registers_of(&u, mask);
	return true;
}
