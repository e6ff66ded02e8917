/* How the stubs call the agent: in the same bytes of machine code, so for both sides. */
#ifndef AGENT_ENTRY_H
#define AGENT_ENTRY_H

#include "agent/abi.h"

/* The registers of arguments at the patched instruction, in the order of Go's ABIInternal. */
struct agent_registers {
	uint64_t argument[9];
};

/* g: the running one; sp, bp: at the patched place. At the beginning of the agent's bytes. */
void agent_entry(struct agent_slot *s, const struct agent_registers *r, uint32_t hook, uint64_t g,
		 uint64_t sp, uint64_t bp);

#define AGENT_CHANGE(from, to) ((from) << 16 | (to))

/*
 * casgstatus(g, from, to), called by the thread m, on which `runner` runs; bp: at the patched
 * place, whose address and SP are in m.vdsoPC and m.vdsoSP. agent_status() handles the frequent
 * changes. It returns 0, having done nothing, for the others, and agent_change() handles these. At
 * agent_blob_status and agent_blob_change in the agent's bytes.
 */
int agent_status(struct agent_slot *s, uint64_t g, uint32_t change, uint64_t m, uint64_t bp,
		 uint64_t runner);
void agent_change(struct agent_slot *s, uint64_t g, uint32_t change, uint64_t m, uint64_t bp,
		  uint64_t runner);

/*
 * reentersyscall(pc, sp, bp) and exitsyscall(), from Go 1.26 on: of the goroutine g on the thread
 * m, with SP as it is at the patched place. The stub has set m.vdsoPC and m.vdsoSP. At
 * agent_blob_syscall and agent_blob_syscall_exit in the agent's bytes.
 */
void agent_syscall(struct agent_slot *s, uint64_t pc, uint64_t m, uint64_t bp, uint64_t g,
		   uint64_t sp);
void agent_syscall_exit(struct agent_slot *s, uint64_t pc, uint64_t m, uint64_t bp, uint64_t g,
			uint64_t sp);

#endif
