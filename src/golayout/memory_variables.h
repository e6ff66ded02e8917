/*
 * The runtime's variables of its memory: the heap, the counters of memory, the collector. By
 * symbol, otherwise by rules as in runtime_variables.c. Only the verbs that look at memory need
 * them, so a program without them is no error here.
 */
#ifndef GOLAYOUT_MEMORY_VARIABLES_H
#define GOLAYOUT_MEMORY_VARIABLES_H

#include "golayout/golayout.h"

/* Addresses in the target; 0: not found. */
struct memory_variables {
	uint64_t heap;              /* mheap_ */
	uint64_t stats;             /* memstats */
	uint64_t controller;        /* gcController */
	uint64_t gc_bits;           /* gcBitsArenas */
	uint64_t persistent_chunks; /* the list of chunks for what is never freed */
	uint64_t bucket_table;      /* buckhash: a pointer to the hash table of profiles */
};

/* ERROR_UNSUPPORTED: one of the first three is missing; the message names it. */
struct error *memory_variables_find(const struct image *img, const struct golayout *lay,
				    struct memory_variables *ret) must_check;

/* The same by the rules only, to test these. Addresses that are not found are 0. */
struct error *memory_variables_find_by_rules(const struct image *img, const struct golayout *lay,
					     struct memory_variables *ret) must_check;

#endif
