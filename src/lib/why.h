/* Measures a program for `gospect why` (gospect/why.h): each file fills its part of the numbers. */
#ifndef LIB_WHY_H
#define LIB_WHY_H

#include "inject/quota.h"
#include "lib/running_stacks.h"
#include "lib/target_handle.h"
#include "memory/runtime_buckets.h"
#include "why/why_numbers.h"

/* ---- the process and the machine: why_machine.c ---- */

struct why_look {
	uint64_t at;  /* CLOCK_MONOTONIC */
	double cpu_s; /* CPU time of the process; -1: not known */
	double machine_s, steal_s;
	double periods, throttled, throttled_s; /* of the quota */
	uint64_t rss;
	uint32_t cycle; /* of the garbage collector */
	bool has_cycle;
	struct runtime_buckets memory; /* in use, by stack; empty: the program keeps no profile */
};

struct why_machine {
	struct gospect_target *target;
	struct quota quota;
	struct heap_variables variables; /* all 0: not found */
	uint64_t controller;             /* runtime.gcController; 0: not found */
	uint64_t rate;                   /* of the heap profile; 0: there is none */
	struct why_look first, last;
	double sleepers; /* threads in uninterruptible sleep, of all looks together */
	unsigned int looks;
};

void why_machine_begin(struct why_machine *m, struct gospect_target *t);
/* Looks at the states of the threads; from time to time. */
void why_machine_look(struct why_machine *m);
struct error *why_machine_end(struct why_machine *m, struct why_numbers *n) must_check;
void why_machine_release(struct why_machine *m);
#define _cleanup_why_machine_ __attribute__((cleanup(why_machine_release)))

/* ---- the goroutines over time: why_record.c ---- */

struct why_recording {
	struct gospect_target *target;
	double seconds;
	void (*tick)(void *arg, double seconds); /* about once a second */
	void *arg;
};

/* The end of the target is no error: *ret_ended is true, and the numbers are of the time before. */
struct error *why_record(const struct why_recording *how, struct why_numbers *n,
			 bool *ret_ended) must_check;

/* ---- who waits for whom, at some moments: why_waits.c ---- */

struct error *why_waits(struct gospect_target *t, unsigned int looks,
			struct why_numbers *n) must_check;

/* ---- all goroutines of a core file: why_core.c ---- */

struct error *why_core(struct gospect_target *t, struct why_numbers *n) must_check;

/* ---- names: why_names.c ---- */

#define WHY_MOST_FRAMES 128

/* The functions of a stack, innermost first, without wrappers; outer ones that do not fit are left
 * out. The names belong to the code. How many there are. */
size_t why_names(const struct code *code, struct stack stack,
		 const char *ret[static WHY_MOST_FRAMES]);
/* The function, file and line of a go statement. */
void why_name_creator(const struct code *code, uint64_t go_pc, struct why_numbers *n,
		      struct why_creator *ret);

#endif
