/*
 * runtime.MemStats, as runtime.ReadMemStats() would give it, without stopping the program. Tiny
 * allocations that a P has not reported yet are missing.
 */
#ifndef MEMORY_MEMORY_STATISTICS_H
#define MEMORY_MEMORY_STATISTICS_H

#include <stdio.h>

#include "memory/runtime_memory.h"

#define PAUSES 256

struct memory_statistics {
	struct runtime_memory memory;
	uint64_t heap_bytes; /* of objects, those that caches gave out among them */
	uint64_t heap_objects;
	uint64_t last_gc; /* nanoseconds since 1970 */
	uint64_t pauses[PAUSES], pause_ends[PAUSES];
	uint32_t forced;     /* collections that the program asked for */
	double gc_cpu;       /* the collector's share of the CPU time */
	long peak_kilobytes; /* of the resident set; negative: not known */
};

struct error *memory_statistics_read(struct target *t, const struct image *img,
				     const struct golayout *lay,
				     struct memory_statistics *ret) must_check;
void memory_statistics_release(struct memory_statistics *s);
#define _cleanup_statistics_ __attribute__((cleanup(memory_statistics_release)))

/* As runtime/pprof writes it behind a heap profile with debug=1. */
void memory_statistics_write(const struct memory_statistics *s, FILE *out);

#endif
