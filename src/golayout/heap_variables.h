/*
 * The runtime's variables of its own profiles (runtime/mprof.go): by symbol, otherwise by rules as
 * in runtime_variables.c. Only `gospect heap` needs them, so a program without them is no error
 * here.
 */
#ifndef GOLAYOUT_HEAP_VARIABLES_H
#define GOLAYOUT_HEAP_VARIABLES_H

#include "golayout/golayout.h"

/* Addresses in the target; 0: not found. */
struct heap_variables {
	uint64_t mbuckets;     /* the list of stacks that allocated */
	uint64_t bbuckets;     /* the list of stacks that blocked */
	uint64_t xbuckets;     /* the list of stacks that contended for a mutex */
	uint64_t cycle;        /* of the heap profile: mProfCycle, before Go 1.19 mProf.cycle */
	uint64_t publish_lock; /* held while a cycle is published: profMemActiveLock, or proflock */
	uint64_t mem_rate;     /* MemProfileRate */
	uint64_t block_rate;   /* blockprofilerate, in ticks */
	uint64_t mutex_rate;   /* mutexprofilerate */
	uint64_t ticks;        /* ticks per second; 0 until the runtime has computed it */
};

/* ERROR_UNSUPPORTED: one of those up to mem_rate is missing; the message names it. */
struct error *heap_variables_find(const struct image *img, const struct golayout *lay,
				  struct heap_variables *ret) must_check;

/* The same by the rules only, to test these. Addresses that are not found are 0. */
struct error *heap_variables_find_by_rules(const struct image *img, const struct golayout *lay,
					   struct heap_variables *ret) must_check;

#endif
