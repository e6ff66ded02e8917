/* What the agent asks of the CPU, and where Go keeps a frame's record: amd64. */
#ifndef AGENT_CPU_H
#define AGENT_CPU_H

#include <stdint.h>

/* The record of a frame, where the frame pointer leads, lies at SP or above it. */
enum { CPU_RECORD_BELOW_SP = 0 };

/* The clock, of which the records have the time: TSC. */
static inline __attribute__((always_inline)) uint64_t cpu_clock(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}

/* So many ticks of it are 2 to 4 s: at 4 to 2 GHz. */
static inline uint64_t cpu_clock_seconds(void)
{
	return 1ull << 33;
}

/* The line will be written to. */
static inline __attribute__((always_inline)) void cpu_prefetch(const uint8_t *at)
{
	__asm__ volatile("prefetchw %0" : : "m"(*at));
}

#endif
