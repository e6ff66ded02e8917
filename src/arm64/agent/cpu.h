/* What the agent asks of the CPU, and where Go keeps a frame's record: arm64. */
#ifndef AGENT_CPU_H
#define AGENT_CPU_H

#include <stdint.h>

/* The record of a frame, where the frame pointer leads, begins below SP (cmd/internal/obj/arm64).
 */
enum { CPU_RECORD_BELOW_SP = 8 };

/* The clock, of which the records have the time: the virtual counter. */
static inline __attribute__((always_inline)) uint64_t cpu_clock(void)
{
	uint64_t now;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(now)::"memory");
	return now;
}

/* So many ticks of it are 3 s. */
static inline uint64_t cpu_clock_seconds(void)
{
	uint64_t frequency;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
	return 3 * frequency;
}

/* The line will be written to. */
static inline __attribute__((always_inline)) void cpu_prefetch(const uint8_t *at)
{
	__builtin_prefetch(at, 1);
}

#endif
