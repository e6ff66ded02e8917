/* One call of a hook, and how it reads the target's memory. Part of the agent: agent.c alone has
 * it. */
#ifndef AGENT_CALL_H
#define AGENT_CALL_H

#include "agent/abi.h"
#include "agent/cpu.h"
#include "golayout/status.h"

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
/* In the first page of the agent, all of them (agent.lds). */
#define FREQUENT __attribute__((section(".text.frequent")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* One call of the hook. */
struct call {
	struct agent_slot *slot;
	const struct agent_config *config;
	struct agent_shared *shared;
	const struct agent_registers *r;
	uint64_t g; /* the running one: g0 or a goroutine */
	uint64_t m;
	uint64_t sp; /* at the patched place */
	uint64_t bp; /* of the patched function's frame */
	uint32_t hook;
};

INLINE uint64_t word(uint64_t base, uint32_t offset)
{
	return *(const volatile uint64_t *)(base + offset);
}

/* A word that does not change while the hook runs: it may be read at any time, or twice. */
INLINE uint64_t steady(uint64_t base, uint32_t offset)
{
	typedef uint64_t __attribute__((may_alias)) any_word;

	return *(const any_word *)(base + offset);
}

INLINE void set_word(uint64_t base, uint32_t offset, uint64_t value)
{
	*(volatile uint64_t *)(base + offset) = value;
}

INLINE uint32_t half(uint64_t base, uint32_t offset)
{
	return *(const volatile uint32_t *)(base + offset);
}

INLINE uint8_t byte(uint64_t base, uint32_t offset)
{
	return *(const volatile uint8_t *)(base + offset);
}

INLINE int in_range(const struct agent_range *range, uint64_t pc)
{
	return pc - range->start < range->size;
}

/* To where the patched function returns. */
INLINE uint64_t return_address(const struct call *c)
{
	return word(c->bp, 8);
}

/* The same number as unsigned LEB128, but of exactly two, three or four bytes. */
INLINE uint32_t two_bytes(uint32_t value)
{
	return (value & 0x7f) | 0x80 | (value << 1 & 0x7f00);
}

INLINE uint32_t three_bytes(uint32_t value)
{
	return (value & 0x7f) | 0x8080 | (value << 1 & 0x7f00) | (value << 2 & 0x7f0000);
}

INLINE uint32_t four_bytes(uint32_t value)
{
	return three_bytes(value) | 0x800000 | (value << 3 & 0x7f000000);
}

INLINE uint32_t of_three_bytes(uint32_t bytes)
{
	return (bytes & 0x7f) | (bytes >> 1 & 0x3f80) | (bytes >> 2 & 0x1fc000);
}

#endif
