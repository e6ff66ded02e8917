/* How the stub calls the agent: in the same bytes of machine code, so for both sides. */
#ifndef AGENT_ENTRY_H
#define AGENT_ENTRY_H

#include "agent/abi.h"

/* What the registers held at the patched place. Of casgstatus the first three alone are there. */
struct agent_registers {
	uint64_t rax, rbx, rcx, rdi, rsi, r8, r9, r10, r11, rdx;
};

/* g: who runs (R14); sp, bp: at the patched place. At the beginning of the agent's bytes. */
void agent_entry(struct agent_slot *s, const struct agent_registers *r, uint32_t hook, uint64_t g,
		 uint64_t sp, uint64_t bp);

#endif
