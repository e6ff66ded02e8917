/* How gospect shows the agent that it is alive. */
#ifndef INJECT_PRESENCE_H
#define INJECT_PRESENCE_H

#include "agent/abi.h"
#include "agent/cpu.h"

/* To be said every second at least, in the shared memory. An agent that does not hear it for some
 * seconds switches itself off. */
static inline void presence_say(struct agent_shared *shared)
{
	__atomic_store_n(&shared->seen, cpu_clock(), __ATOMIC_RELAXED);
}

#endif
