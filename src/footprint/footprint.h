/*
 * Where the resident memory of a Go program is: one tree that sums to its resident set size.
 *
 * Three sources are put together: the kernel's list of resident pages (target/residence.h), the
 * runtime's spans and tables (memory/), and the stacks of all goroutines (dump/). The target runs
 * on meanwhile, so memory that changes hands is counted as what it was when it was looked at; each
 * resident page is counted once.
 */
#ifndef FOOTPRINT_FOOTPRINT_H
#define FOOTPRINT_FOOTPRINT_H

#include <stdio.h>

#include "base/strbuf.h"
#include "dump/dump.h"
#include "footprint/memory_tree.h"
#include "memory/runtime_memory.h"
#include "target/residence.h"

/* The spans of one size of objects. */
struct footprint_class {
	uint64_t object_bytes; /* 0: large objects, each in a span of its own */
	uint64_t spans;
	uint64_t span_bytes;
	uint64_t objects; /* allocated */
	uint64_t garbage; /* of them, not swept yet */
	uint64_t slots;   /* free ones */
	uint64_t resident;
};

/* The goroutines that were created at one place. */
struct footprint_creator {
	uint32_t name; /* in tree.names */
	uint64_t goroutines;
	uint64_t stack_bytes; /* of their stacks */
	uint64_t frame_bytes; /* of their functions' frames */
};

struct footprint {
	int32_t pid;
	const char *exe; /* the target's string */
	bool is_core;
	bool is_exact;  /* the kernel showed which pages are resident */
	uint64_t taken; /* CLOCK_MONOTONIC; 0: not known */
	struct memory_tree tree;
	uint64_t resident; /* as the root of the tree */
	uint64_t returned; /* of the heap's memory that was used before, and is the OS's again */
	uint64_t idle;     /* of the heap, resident, in no span */
	uint64_t swapped;
	uint64_t huge;
	uint64_t lazily_free;
	/* Of its control group; charge 0: not known, limit UINT64_MAX: none. */
	uint64_t charge, limit;
	struct memory_classes classes;
	struct gc_pacing gc;
	struct footprint_class *sizes; /* by size; large objects last */
	size_t size_count;
	size_t size_capacity;
	struct footprint_creator *creators; /* the most stack first */
	size_t creator_count;
	size_t creator_capacity;
	uint64_t goroutines;
	uint64_t unknown; /* of them, without a stack to look at: they run */
	uint64_t changed; /* spans that are left out */
};

struct error *footprint_take(struct target *t, const struct image *img, const struct golayout *lay,
			     const struct unwinding *unwind, const atomic_int *cancel,
			     struct footprint *ret) must_check;
void footprint_release(struct footprint *f);
#define _cleanup_footprint_ __attribute__((cleanup(footprint_release)))

/* A sentence on what would give memory back. False: no memory. */
bool footprint_add_advice(const struct footprint *f, struct strbuf *sb);

struct error *footprint_write_text(const struct footprint *f, size_t rows, FILE *out) must_check;
struct error *footprint_write_json(const struct footprint *f, FILE *out) must_check;
struct error *footprint_write_page(const struct footprint *f, FILE *out) must_check;

#endif
