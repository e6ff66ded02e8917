/* The registers that ptrace gives: amd64. */
#ifndef INJECT_USER_REGISTERS_H
#define INJECT_USER_REGISTERS_H

#include <sys/user.h>

#include "inject/thread_registers.h"

static inline struct thread_registers thread_registers_of(const struct user_regs_struct *u,
							  uint64_t mask)
{
	return (struct thread_registers){
		.pc = u->rip,
		.sp = u->rsp,
		.frame = u->rbp,
		.tls = u->fs_base,
		.mask = mask,
		.general = {u->rax, u->rdx, u->rcx, u->rbx, u->rsi, u->rdi, u->rbp, u->rsp, u->r8,
			    u->r9, u->r10, u->r11, u->r12, u->r13, u->r14, u->r15},
	};
}

#endif
