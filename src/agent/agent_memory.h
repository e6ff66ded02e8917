/* Which memory of the program the agent may read. Part of the agent. */
#ifndef AGENT_AGENT_MEMORY_H
#define AGENT_AGENT_MEMORY_H

#include "agent/abi.h"

/* The bytes at an address, if all of them lie in the heap or in shared->readable; else NULL. */
const void *agent_memory(const struct agent_shared *shared, uint64_t address, uint64_t size)
	__attribute__((visibility("hidden")));

#endif
