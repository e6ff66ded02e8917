/*
 * What the Go runtime says of its own memory: the counters behind runtime/metrics' /memory/classes
 * (metrics.go, mstats.go), the state of the garbage collector's pacer (mgcpacer.go), and where the
 * runtime's structures outside the heap are.
 *
 * Counters are read while the runtime changes them, within some microseconds. They count mapped
 * memory, whether it is resident or not.
 */
#ifndef MEMORY_RUNTIME_MEMORY_H
#define MEMORY_RUNTIME_MEMORY_H

#include "memory/heap_spans.h"

/* /memory/classes/... in bytes. */
struct memory_classes {
	uint64_t heap_objects; /* allocated, garbage that is not swept among them */
	uint64_t heap_unused;  /* of spans in use, without objects */
	uint64_t heap_free;    /* in no span, and not returned to the OS */
	uint64_t heap_released;
	uint64_t heap_stacks;
	uint64_t mspan_in_use, mspan_free;
	uint64_t mcache_in_use, mcache_free;
	uint64_t metadata_other; /* the collector's bitmaps, buffers and tables */
	uint64_t os_stacks;      /* of threads that the runtime made itself */
	uint64_t other;
	uint64_t profiling_buckets;
	uint64_t total;
};

/* Without GOGC and GOMEMLIMIT the goal is some part of the largest number. */
#define GC_MOST_GOAL (1ull << 60)

struct gc_pacing {
	bool known;
	int32_t percent; /* GOGC; -1: off */
	uint64_t limit;  /* GOMEMLIMIT; UINT64_MAX: none, or before Go 1.19 */
	uint64_t goal;   /* the size of the heap at which the next cycle should end, or more than
			  * GC_MOST_GOAL: there is none */
	uint64_t live;   /* the heap that counts against the goal now */
	uint64_t marked; /* what the last cycle found alive */
	uint32_t cycles; /* completed */
	uint64_t last_gc_ns; /* CLOCK_MONOTONIC; 0: never */
	bool is_limited;     /* GOMEMLIMIT decides the goal */
};

/* Objects of the heap since the start; those of caches that are not full yet are not counted. */
struct heap_counts {
	uint64_t tiny; /* allocations that share objects */
	uint64_t frees;
	uint64_t freed_bytes;
};

enum memory_kind {
	MEMORY_ARENA,          /* of the heap: 64 MB */
	MEMORY_ARENA_INDEX,    /* mheap.arenas */
	MEMORY_ARENA_METADATA, /* heapArena: which span has a page, and bitmaps of pointers */
	MEMORY_SUMMARY,        /* of free pages: pageAlloc.summary */
	MEMORY_PAGE_BITS,      /* free and returned pages: pageAlloc.chunks */
	MEMORY_SCAVENGE_INDEX,
	MEMORY_GC_BITS, /* of objects: allocated and marked */
	MEMORY_SPAN_LIST,
	MEMORY_BUCKET_TABLE,
	MEMORY_PERSISTENT, /* chunks of what is never freed: mspans, mcaches, buckets ... */
	MEMORY_KINDS
};

struct memory_range {
	uint64_t start;
	uint64_t end;
	enum memory_kind kind;
	uint64_t metadata; /* of an arena: its heapArena; 0: not known */
};

struct runtime_memory {
	struct memory_classes classes;
	struct heap_counts counts;
	struct gc_pacing gc;
	uint64_t bucket_bytes;       /* of profiling_buckets, without their table */
	struct memory_range *ranges; /* by address; none overlap */
	size_t range_count;
	size_t range_capacity;
};

/* `spans` gives the sizes of classes. ERROR_CORRUPT: a list is nonsense. */
struct error *runtime_memory_read(struct target *t, enum machine machine,
				  const struct golayout *lay, const struct memory_variables *v,
				  const struct heap_spans *spans,
				  struct runtime_memory *ret) must_check;
void runtime_memory_release(struct runtime_memory *m);
#define _cleanup_runtime_memory_ __attribute__((cleanup(runtime_memory_release)))

/* The name of a class in runtime/metrics, and its value; NULL: there are no more. */
const char *memory_class_at(const struct memory_classes *classes, size_t i, uint64_t *ret);

#endif
