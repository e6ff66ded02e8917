/*
 * The agent's stack cache (agent/agent_stacks.h): the words of a stack, by the number that records
 * have.
 *
 * It lies in shared memory, which the target may write to at any moment. Each word is read once,
 * into memory of the caller's; a number counts when it was checked after that. Nobody gets a
 * pointer into shared memory.
 */
#ifndef COLLECT_STACK_CACHE_H
#define COLLECT_STACK_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "agent/abi.h"

#define STACK_CACHE_WORDS (AGENT_MAX_DEPTH + 8)

struct stack_cache {
	const struct agent_shared *shared;
	const struct agent_shared *layout; /* how that was made */
};

/* Copies the words of a stack (agent/abi.h); they are whatever the target put there. How many; 0:
 * there is no stack of that number. */
size_t stack_cache_read(const struct stack_cache *c, uint64_t number,
			uint64_t ret[STACK_CACHE_WORDS]);

#endif
