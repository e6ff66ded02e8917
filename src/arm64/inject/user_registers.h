/* The registers that ptrace gives: arm64. */
#ifndef INJECT_USER_REGISTERS_H
#define INJECT_USER_REGISTERS_H

#include <string.h>
#include <sys/user.h>

#include "inject/thread_registers.h"

/* Without the thread pointer. */
static inline struct thread_registers thread_registers_of(const struct user_regs_struct *u,
							  uint64_t mask)
{
	struct thread_registers r = {.pc = u->pc,
				     .sp = u->sp,
				     .frame = u->regs[29],
				     .lr = u->regs[30],
				     .mask = mask};

	memcpy(r.general, u->regs, sizeof(u->regs));
	r.general[31] = u->sp;
	return r;
}

#endif
