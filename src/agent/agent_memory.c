#include "agent/agent_memory.h"

/*
 * The runtime's own list of heap ranges. Its arrays are never freed, and the agent reads no more of
 * an array than it has. While the runtime inserts a range, the agent may read a range with the end
 * of its neighbour; what lies between them belongs to no goroutine. A new array counts only after
 * gospect has looked at it.
 */
static int in_heap(const struct agent_shared *sh, uint64_t address, uint64_t size)
{
	const volatile uint64_t *slice = (const volatile uint64_t *)sh->heap_ranges;
	uint64_t array = __atomic_load_n(&sh->heap_array, __ATOMIC_ACQUIRE), count, capacity;
	const volatile struct agent_readable *ranges =
		(const volatile struct agent_readable *)array;

	if (!slice || !array || slice[0] != array)
		return 0;
	count = slice[1];
	capacity = __atomic_load_n(&sh->heap_capacity, __ATOMIC_ACQUIRE);
	/* Else it may be the next one's. */
	if (__atomic_load_n(&sh->heap_array, __ATOMIC_ACQUIRE) != array)
		return 0;
	count = count < capacity ? count : capacity;
	for (uint64_t i = 0; i < count && i < AGENT_MAX_HEAP_RANGES; i++) {
		uint64_t start = ranges[i].start, end = ranges[i].end;

		if (address >= start && address < end && size <= end - address)
			return 1;
	}
	return 0;
}

const void *agent_memory(const struct agent_shared *sh, uint64_t address, uint64_t size)
{
	uint64_t count = __atomic_load_n(&sh->readable_count, __ATOMIC_ACQUIRE);

	if (in_heap(sh, address, size))
		return (const void *)address;
	for (uint64_t i = 0; i < count && i < AGENT_MAX_READABLE; i++) {
		uint64_t end = __atomic_load_n(&sh->readable[i].end, __ATOMIC_RELAXED);

		if (address >= sh->readable[i].start && address < end && size <= end - address)
			return (const void *)address;
	}
	return 0;
}
